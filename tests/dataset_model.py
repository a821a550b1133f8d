"""A dataset version in plain Python: what each pin must show, said as simply as possible."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.dataset_layouts import APPEND, Definition, Rows, block, row_hashes
from trace_core.kernel.scopes import Scope
from trace_core.storage.scopes import WHOLE

LAST = 120
"""The greatest cursor in play."""


@dataclass
class _Commit:
    number: int
    scope: Scope
    live: bool = True


@dataclass
class _Row:
    row: dict[str, Any]
    scope: Scope
    first: int
    last: int | None = None


class DatasetModel:
    def __init__(self, definition: Definition, *, cuts: bool) -> None:
        self._definition = definition
        self._by_row = definition.cursor_column is not None
        self._cuts = cuts and self._by_row
        self._commits: list[_Commit] = []
        self._rows: list[_Row] = []
        self.number = 0

    def random_scope(self, rng: random.Random) -> Scope:
        kind = rng.random()
        if kind < 0.02:
            return WHOLE
        if kind < 0.1 and not self._by_row:
            return Scope(partition_key=rng.choice(["eu", "us"]))
        if kind < 0.4:
            return Scope(cursor=rng.randint(0, LAST))
        start = rng.randrange(0, LAST, 10)
        if kind < 0.8:
            return Scope.of_range(start, start + 9)
        return Scope.of_range(start, start + rng.choice([4, 19, 29]))

    def random_rows(self, rng: random.Random, scope: Scope) -> Rows:
        low, high = scope.range or (0, LAST)
        return [
            block(rng.randint(low, high), f"{rng.randint(0, 300)}", rng.getrandbits(256))
            for _ in range(rng.randint(0, 6))
        ]

    def would_cut(self, scope: Scope) -> bool:
        """Does the scope take a part of an earlier commit that has to go as a whole?"""
        if self._definition.update_strategy is APPEND or self._cuts:
            return False
        return any(
            commit.live and _meet(commit.scope, scope) and not _within(commit.scope, scope)
            for commit in self._commits
        )

    def commit(self, scope: Scope, rows: Rows) -> int:
        self.number += 1
        if self._definition.update_strategy is APPEND:
            known = {each.row["hash"] for each in self._rows}
            for row in rows:
                if row["hash"] not in known:
                    known.add(row["hash"])
                    self._rows.append(_Row(dict(row), scope, self.number))
            return self.number
        for commit in self._commits:
            commit.live = commit.live and not _within(commit.scope, scope)
        for each in self._rows:
            if each.last is None and _within(self._place(each), scope):
                each.last = self.number
        self._commits.append(_Commit(self.number, scope))
        self._rows += [_Row(dict(row), scope, self.number) for row in rows]
        return self.number

    def at(self, number: int, scope: Scope = WHOLE) -> Counter[str]:
        return row_hashes(
            each.row
            for each in self._rows
            if each.first <= number
            and (each.last is None or number < each.last)
            and _meet(self._place(each), scope)
        )

    def _place(self, each: _Row) -> Scope:
        return Scope(cursor=each.row["number"]) if self._by_row else each.scope


def _meet(one: Scope, other: Scope) -> bool:
    if WHOLE in (one, other) or one == other:
        return True
    if one.range is None or other.range is None:
        return False
    return bool(_cursors(one) & _cursors(other))


def _within(inner: Scope, outer: Scope) -> bool:
    if outer == WHOLE or inner == outer:
        return True
    if inner.range is None or outer.range is None:
        return False
    return _cursors(inner) <= _cursors(outer)


def _cursors(scope: Scope) -> set[int]:
    assert scope.range is not None
    return set(range(scope.range[0], scope.range[1] + 1))
