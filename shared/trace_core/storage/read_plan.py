"""Which rows of which part a reader gets: decided once, for every engine that reads.

A published dataset may have several parts, from hot to cold. A range that a colder S3 part holds at
its pin is read from there only, so that no row is read twice, wherever its parts overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_core.dag.model import UpdateStrategy
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Backend, Entry, PinnedPart, StoredObject
from trace_core.storage.scopes import EVERY_CURSOR, WHOLE, Range, inside, joined, overlap, without


@dataclass(frozen=True)
class ObjectToRead:
    stored: StoredObject
    number: int
    """Of the commit that wrote it: appended rows are ordered by it."""
    cursor_column: str | None
    keep: tuple[Range, ...] | None
    """Only rows with cursors in these; None: all rows, `()`: none, which is said of appended rows
    alone: they still decide which row of a key came first."""


@dataclass(frozen=True)
class PartToRead:
    part: PinnedPart
    scope: Scope | None
    """None: all of the dataset."""
    cold: tuple[Range, ...]
    """Rows inside these are read from a colder part."""
    objects: tuple[ObjectToRead, ...]
    """Of the S3 layout; the rows of a Postgres part are those in scope without the cold ones."""

    @property
    def first_of_key(self) -> tuple[str, ...]:
        """Of appended rows with one key only the first counts."""
        appends = self.part.update_strategy is UpdateStrategy.APPEND
        return self.part.unique_key if appends else ()


def read_plan(parts: Sequence[PinnedPart], scope: Scope | None = None) -> tuple[PartToRead, ...]:
    """Of the parts of one relation, from hot to cold, with at least the commits that meet the
    scope."""
    scope = None if scope == WHOLE else scope
    return tuple(
        _part_to_read(part, scope, covered_ranges(parts[place + 1 :]))
        for place, part in enumerate(parts)
    )


def covered_ranges(colder: Sequence[PinnedPart]) -> tuple[Range, ...]:
    """What S3 parts hold at their pins, joined where it touches."""
    return joined(
        left
        for part in colder
        if part.backend is Backend.S3 and part.update_strategy is UpdateStrategy.REPLACE
        for entry in part.live_entries()
        if entry.scope.range is not None
        for left in entry.left_at(part.pin.number)
    )


def _part_to_read(part: PinnedPart, scope: Scope | None, cold: tuple[Range, ...]) -> PartToRead:
    if part.backend is not Backend.S3:
        return PartToRead(part, scope, cold, ())
    found = [(entry, _keep(part, entry, scope, cold)) for entry in part.live_entries()]
    if part.update_strategy is UpdateStrategy.APPEND and part.unique_key:
        last = max((entry.number for entry, keep in found if keep != ()), default=0)
        found = [(entry, keep) for entry, keep in found if entry.number <= last]
    else:
        found = [(entry, keep) for entry, keep in found if keep != ()]
    objects = tuple(
        ObjectToRead(stored, entry.number, _cursor_column(part, entry), keep)
        for entry, keep in found
        for stored in entry.objects
        if stored.rows
    )
    return PartToRead(part, scope, cold, objects)


def _cursor_column(part: PinnedPart, entry: Entry) -> str | None:
    return entry.cursor_column or part.cursor_column


def _keep(
    part: PinnedPart, entry: Entry, scope: Scope | None, cold: tuple[Range, ...]
) -> tuple[Range, ...] | None:
    if scope is not None and not overlap(entry.scope, scope):
        return ()
    bounds = entry.scope.range
    if _cursor_column(part, entry) is None:
        # It is read as a whole, or not at all. Of what lies outside the scope it is not known here
        # whether it is cold, and nobody asks for it.
        asked = scope.range if scope is not None and scope.range is not None else EVERY_CURSOR
        is_cold = bounds is not None and not without(inside([bounds], asked), cold)
        return () if is_cold else None
    every = bounds or EVERY_CURSOR
    left = without(entry.left_at(part.pin.number) or [every], cold)
    if scope is not None and scope.range is not None:
        left = inside(left, scope.range)
    return None if left == (every,) else left
