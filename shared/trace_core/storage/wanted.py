"""What a reader wants of a part, in one form for every layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_core.dag.filter_types import bind
from trace_core.dag.filters import Predicate
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Backend, PinnedPart
from trace_core.storage.scopes import WHOLE

Range = tuple[int, int]


@dataclass(frozen=True)
class Wanted:
    columns: tuple[Column, ...]
    scope: Scope | None
    """None: all of the dataset."""
    where: Predicate | None
    """Bound to the columns' types."""
    cold: tuple[Range, ...] = ()
    """What lies inside these is read from a colder part."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def wanted(
    parts: Sequence[PinnedPart],
    scope: Scope | None,
    columns: Sequence[str] | None,
    where: Predicate | None,
) -> Wanted:
    """Check a request against the parts that it reads."""
    if not parts:
        raise Invalid("There is no part to read.", field="parts")
    for part in parts:
        if part.backend is Backend.CONTROL:
            raise Invalid("This dataset has events and no rows.", field="parts")
        if part.columns != parts[0].columns:
            raise Invalid("The parts of a dataset have the same columns.", field="parts")
    known = {column.name: column for column in parts[0].columns}
    names = list(known) if columns is None else list(columns)
    for name in names:
        if name not in known:
            raise Invalid(f"There is no column {name!r}.", field="columns")
    if not names or len(set(names)) != len(names):
        raise Invalid("Name at least one column, and none twice.", field="columns")
    types = {column.name: column.type for column in parts[0].columns}
    return Wanted(
        tuple(known[name] for name in names),
        None if scope == WHOLE else scope,
        None if where is None else bind(where, types),
    )


def covered_ranges(colder: Sequence[PinnedPart]) -> tuple[Range, ...]:
    """The ranges that S3 parts hold at their pins, joined where they touch."""
    found = sorted(
        entry.scope.range
        for part in colder
        if part.backend is Backend.S3 and part.update_strategy is UpdateStrategy.REPLACE
        for entry in part.live_entries()
        if entry.scope.range is not None
    )
    joined: list[Range] = []
    for start, end in found:
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)
