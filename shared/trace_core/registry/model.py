"""How commits of one dataset version follow each other: decisions, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.kernel.errors import Invalid, Superseded
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Cut, Pin, Taken, any_later, meets, taken_by
from trace_core.storage.scopes import WHOLE, covers, overlap, scope_name


class ColumnsDiffer(Invalid):
    """The columns are not those of the dataset version."""

    code = "ColumnsDiffer"


class OutputsOverlap(Invalid):
    """Two outputs of one report write to the same rows."""

    code = "OutputsOverlap"


@dataclass(frozen=True)
class Commit:
    """One registered commit; valid for pins from `number` up to and without `replaced_at`."""

    number: int
    scope: Scope
    pins: tuple[Pin, ...] = ()
    replaced_at: int | None = None
    cursor_column: str | None = None
    """Of the S3 layout: without one it can only be replaced as a whole."""
    cuts: tuple[Cut, ...] = ()

    def valid_at(self, number: int) -> bool:
        return self.number <= number and (self.replaced_at is None or number < self.replaced_at)


def replaced_by(
    live: Iterable[Commit], scope: Scope, pins: Sequence[Pin], strategy: UpdateStrategy
) -> Taken[Commit]:
    """What a new commit takes from the live ones; raises when it may not.

    A result of older inputs never replaces one of newer inputs, and a commit without cursors is
    replaced as a whole or not at all.
    """
    if strategy is UpdateStrategy.APPEND:
        return Taken((), ())
    met = sorted((c for c in live if meets(c, scope)), key=lambda c: c.number)
    for commit in met:
        if any_later(commit.pins, pins):
            raise Superseded(scope=scope.fields(), commit=commit.number)
    return taken_by(met, scope)


@dataclass(frozen=True)
class Placed:
    """Where a commit of the data database stands among those that are registered already."""

    replaced_at: int | None
    closes: tuple[int, ...]


def place(
    registered: Iterable[Commit], number: int, scope: Scope, strategy: UpdateStrategy
) -> Placed:
    """The same for any order of registration: numbers say what came after what."""
    if strategy is UpdateStrategy.APPEND:
        return Placed(None, ())
    others = list(registered)
    after = [c.number for c in others if c.number > number and covers(c.scope, scope)]
    closes = [
        c.number
        for c in others
        if c.number < number
        and (c.replaced_at is None or c.replaced_at > number)
        and covers(scope, c.scope)
    ]
    return Placed(min(after, default=None), tuple(sorted(closes)))


def advance(readable: int, registered: Iterable[int]) -> int:
    """The highest n with 1..n all registered."""
    for number in sorted(registered):
        if number == readable + 1:
            readable = number
        elif number > readable:
            break
    return readable


def with_columns(
    known: Sequence[Column] | None, given: Sequence[Column], unique_key: Sequence[str] = ()
) -> tuple[Column, ...]:
    """The columns of a version after a commit with the given ones.

    The first commit sets them. Later ones have the same; a new one may stand at the end, where it
    is null in all earlier rows.
    """
    if known is None:
        missing = [name for name in unique_key if name not in {each.name for each in given}]
        if missing:
            raise ColumnsDiffer(
                f"The unique key names {', '.join(missing)}, which the rows do not have.",
                columns=names(given),
            )
        return tuple(given)
    if list(given[: len(known)]) != list(known):
        raise ColumnsDiffer(
            f"The dataset version has the columns {names(known)}, and this commit "
            f"{names(given)}. Write the same ones, with new ones at the end; for others, deploy "
            "a new version.",
            columns=names(given),
            expected=names(known),
        )
    return tuple(given)


def refuse_overlaps(scopes: Sequence[Scope]) -> None:
    """Scopes that one report commits to one version, whose order would otherwise decide."""
    seen: set[str] = set()
    for scope in scopes:
        if scope.key in seen or (len(scopes) > 1 and scope.key == WHOLE.key):
            raise OutputsOverlap(scope=scope.fields())
        seen.add(scope.key)
    ranged = sorted((s for s in scopes if s.range is not None), key=lambda s: s.range or (0, 0))
    for one, other in pairwise(ranged):
        if overlap(one, other):
            raise OutputsOverlap(
                f"Outputs {scope_name(one)} and {scope_name(other)} of one report overlap.",
                scope=other.fields(),
            )


def names(columns: Sequence[Column]) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in columns) or "(none)"
