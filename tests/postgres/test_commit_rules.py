"""Replace, append and overlap, against a plain model in which a dataset is a set of cells."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commit_world import FORK, CommitWorld
from trace_core.kernel.errors import Superseded
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Lease, Written, lock_versions, register
from trace_core.registry.pins import PinResolver
from trace_core.storage.errors import PartialOverlap
from trace_core.storage.model import Manifest, Pin
from trace_core.storage.scopes import EVERY_CURSOR

CURSORS = 8
NAMES = ("x", "y")
INPUTS = (UUID(int=1), UUID(int=2))

cursors = st.integers(0, CURSORS - 1)
scopes = st.one_of(
    cursors.map(lambda cursor: Scope(cursor=cursor)),
    st.tuples(cursors, cursors).map(lambda ends: Scope.of_range(min(ends), max(ends))),
    st.sampled_from(
        [Scope(partition_key="low", start=0, end=2), Scope(partition_key="mid", start=2, end=5)]
    ),
    st.sampled_from(NAMES).map(lambda name: Scope(partition_key=name)),
    st.just(Scope()),
)
pins = st.dictionaries(
    st.sampled_from(INPUTS), st.tuples(st.integers(1, 2), st.integers(0, 3)), max_size=2
)
Cell = int | str


def _cells(scope: Scope) -> frozenset[Cell]:
    if scope.range is not None:
        return frozenset(range(scope.range[0], scope.range[1] + 1))
    if scope.partition_key is not None:
        return frozenset([scope.partition_key])
    return frozenset([*range(CURSORS), *NAMES, "everything else"])


@dataclass(frozen=True)
class Kept:
    number: int
    cells: frozenset[Cell]
    pins: dict[UUID, tuple[int, int]]
    by_row: bool = False


class Plain:
    """What is live, as a list; after each commit a copy of it is what its pin shows."""

    def __init__(self) -> None:
        self.live: list[Kept] = []
        self.shown: list[set[tuple[int, Cell]]] = [set()]

    def replace(
        self, cells: frozenset[Cell], pins: dict[UUID, tuple[int, int]], by_row: bool = False
    ) -> str:
        met = [kept for kept in self.live if kept.cells & cells]
        if any(kept.pins[i] > pins[i] for kept in met for i in kept.pins if i in pins):
            return "Superseded"
        ranged = all(isinstance(cell, int) for cell in cells)
        if any(not kept.cells <= cells and not (kept.by_row and ranged) for kept in met):
            return "PartialOverlap"
        left = [dataclasses.replace(kept, cells=kept.cells - cells) for kept in self.live]
        self._add([kept for kept in left if kept.cells], cells, pins, by_row)
        return "rewrites" if met else "new"

    def append(
        self, cells: frozenset[Cell], pins: dict[UUID, tuple[int, int]], by_row: bool = False
    ) -> str:
        self._add(list(self.live), cells, pins, by_row)
        return "new"

    def _add(
        self,
        live: list[Kept],
        cells: frozenset[Cell],
        pins: dict[UUID, tuple[int, int]],
        by_row: bool,
    ) -> None:
        live.append(Kept(len(self.shown), cells, pins, by_row))
        self.live = live
        self.shown.append({(kept.number, cell) for kept in live for cell in kept.cells})


class Real:
    def __init__(self, world: CommitWorld, backend: str, strategy: str) -> None:
        self.world = world
        self.dataset, self.version = world.output("b")
        world.keep("b", backend, strategy)
        for statement in (
            "DELETE FROM commit_cuts",
            "DELETE FROM commits",
            "UPDATE version_counters SET last_number = 0, readable = 0, max_end = NULL",
        ):
            world.state.write("test", statement, {})

    def register(self, written: Written) -> Any:
        with self.world.state.transaction("test") as tx:
            versions = lock_versions(tx, [self.version])
            return register(tx, versions, [written], self.world.clock.now())

    def commit(
        self, step: int, scope: Scope, found: dict[UUID, tuple[int, int]], by_row: bool
    ) -> str:
        lease = Lease(UUID(int=step + 1), 1, 1)
        manifest = Manifest(
            DatasetUuid(self.dataset), DatasetVersion(self.version), TaskId(lease.task_id), 1, 1,
            0, scope, (), (), "number" if by_row else None,
        )  # fmt: skip
        written = Written(
            self.version, scope, lease, 0, manifest_key=f"{step}", manifest=manifest,
            pins=_pins(found),
        )  # fmt: skip
        try:
            done = self.register(written)
        except (Superseded, PartialOverlap) as refused:
            return refused.code
        (told,) = done.readable
        return "rewrites" if told.rewrites else "new"

    def shown(self) -> list[set[tuple[int, Cell]]]:
        """What each pin shows, up to the readable one."""
        rows = self.world.commits("b")
        cuts = self.world.rows("SELECT * FROM commit_cuts")
        return [
            {
                (row.number, cell)
                for row in rows
                if row.number <= pin and (row.replaced_at is None or pin < row.replaced_at)
                for cell in _cells(Scope.parse(row.scope, row.range_start, row.range_end))
                if not any(
                    cut.range_start <= cell <= cut.range_end
                    for cut in cuts
                    if isinstance(cell, int) and cut.number == row.number and cut.cut_at <= pin
                )
            }
            for pin in range(self.world.counter("b").readable + 1)
        ]

    def found(self, pin: int, scope: Scope) -> set[tuple[int, Cell]]:
        """What a reader of a scope gets at a pin."""
        named = Pin(DatasetUuid(self.dataset), DatasetVersion(self.version), pin, 1)
        (part,) = PinResolver(self.world.state).resolve([named], scope=scope)
        return {
            (entry.number, cell)
            for entry in part.live_entries()
            for cell in _cells(entry.scope) & _cells(scope)
            if not isinstance(cell, int)
            or any(start <= cell <= end for start, end in entry.left_at(pin) or [EVERY_CURSOR])
        }


def _pins(found: dict[UUID, tuple[int, int]]) -> tuple[Pin, ...]:
    return tuple(
        Pin(DatasetUuid(dataset), DatasetVersion(dataset), number, swap)
        for dataset, (swap, number) in found.items()
    )


@pytest.fixture
def ruled(commit_world: CommitWorld) -> CommitWorld:
    commit_world.deploy(FORK)
    return commit_world


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    strategy=st.sampled_from(["replace", "replace", "replace", "append"]),
    steps=st.lists(st.tuples(scopes, pins, st.booleans()), max_size=12),
    wanted=scopes,
)
def test_what_each_pin_shows_is_what_the_plain_model_shows(
    ruled: CommitWorld,
    strategy: str,
    steps: list[tuple[Scope, dict[UUID, tuple[int, int]], bool]],
    wanted: Scope,
) -> None:
    plain, real = Plain(), Real(ruled, "s3", strategy)
    for step, (scope, found, by_row) in enumerate(steps):
        expected = getattr(plain, strategy)(_cells(scope), found, by_row)
        assert real.commit(step, scope, found, by_row) == expected
        assert real.shown() == plain.shown
    for pin, shown in enumerate(plain.shown):
        meeting = {(number, cell) for number, cell in shown if cell in _cells(wanted)}
        assert real.found(pin, wanted) == meeting


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), wanted=st.lists(scopes, min_size=1, max_size=8))
def test_numbers_of_the_data_database_show_the_same_in_any_order_of_registration(
    ruled: CommitWorld, data: st.DataObject, wanted: list[Scope]
) -> None:
    """What the data database refuses never gets a number; what it accepts is registered."""
    plain = Plain()
    accepted = [
        (number, scope)
        for scope in wanted
        if (number := len(plain.shown))
        and plain.replace(_cells(scope), {}) not in ("PartialOverlap", "Superseded")
    ]
    real = Real(ruled, "postgres", "replace")
    told: list[int] = []
    for number, scope in data.draw(st.permutations(accepted)):
        done = real.register(
            Written(real.version, scope, Lease(UUID(int=number), 1, 1), 0, number=number, pins=())
        )
        told += [each.number for each in done.readable]
        assert real.shown() == plain.shown[: real.world.counter("b").readable + 1]
    assert told == [number for number, _ in accepted]
    assert real.shown() == plain.shown
