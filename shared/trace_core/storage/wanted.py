"""What a reader wants of a part, in one form for every layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_core.dag.filter_types import bind
from trace_core.dag.filters import Predicate
from trace_core.dag.model import Column
from trace_core.kernel.errors import Invalid
from trace_core.storage.model import Backend, PinnedPart


@dataclass(frozen=True)
class Wanted:
    columns: tuple[Column, ...]
    where: Predicate | None
    """Bound to the columns' types."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def wanted(
    parts: Sequence[PinnedPart],
    columns: Sequence[str] | None,
    where: Predicate | None,
) -> Wanted:
    """Check a request against the parts that it reads."""
    if not parts:
        raise Invalid("There is no part to read.", field="parts")
    for part in parts:
        if part.backend is Backend.CONTROL:
            raise Invalid("This dataset has events and no rows.", field="parts")
        if part.columns and part.columns != columns_of(parts):
            raise Invalid("The parts of a dataset have the same columns.", field="parts")
    known = {column.name: column for column in columns_of(parts)}
    names = list(known) if columns is None else list(columns)
    for name in names:
        if name not in known:
            raise Invalid(f"There is no column {name!r}.", field="columns")
    if not names or len(set(names)) != len(names):
        raise Invalid("Name at least one column, and none twice.", field="columns")
    types = {column.name: column.type for column in columns_of(parts)}
    return Wanted(
        tuple(known[name] for name in names),
        None if where is None else bind(where, types),
    )


def columns_of(parts: Sequence[PinnedPart]) -> tuple[Column, ...]:
    """Those of the first part that has any: one that nothing was written to has none yet."""
    return next((part.columns for part in parts if part.columns), ())
