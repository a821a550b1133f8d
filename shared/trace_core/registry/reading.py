"""Pins of published datasets for people: as they are now, at a commit, or in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.errors import Conflict, Invalid, NotFound
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId
from trace_core.kernel.scopes import Scope
from trace_core.registry.snapshots import SnapshotViews
from trace_core.storage.model import Backend, Cut, Entry, Pin, PinnedPart, StoredObject

SQL = Statements("trace_core.registry", "stored_rows.sql")


class Purging(Conflict):
    """The version is being purged, or was: there is nothing left to read."""

    code = "Purging"


@dataclass(frozen=True)
class Moment:
    """Which state of a dataset is asked for; nothing given: the present one."""

    version: UUID | None = None
    number: int | None = None
    """Of that version; its last readable one when it is not given."""
    snapshot: str | None = None


@dataclass(frozen=True)
class Layout:
    backend: Backend
    update_strategy: UpdateStrategy
    unique_key: tuple[str, ...]
    columns: tuple[Column, ...]


class Pinning:
    """Resolves a moment; whoever asks has looked at the caller's rights."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state
        self._snapshots = SnapshotViews(state)

    def pins(self, org_id: OrgId, dataset: str, at: Moment) -> dict[int, Pin]:
        """By part; all of them in one statement."""
        if at.snapshot is not None:
            return self._snapshots.pins(org_id, dataset, at.snapshot)
        params = {"org_id": org_id, "dataset": dataset, "dataset_version": at.version}
        if at.version is not None:
            return self._pin_of_version(params, at)
        rows = self._state.read(SQL["current_pins"], params)
        return {row.part: _pin(row, row.number) for row in rows}

    def _pin_of_version(self, params: Mapping[str, Any], at: Moment) -> dict[int, Pin]:
        rows = self._state.read(SQL["pin_of_version"], params)
        if not rows:
            raise NotFound(f"The dataset never had the version {at.version}.")
        row = rows[0]
        number = row.readable if at.number is None else at.number
        if number > row.readable:
            raise Invalid(
                f"Commit {number} cannot be read yet: the last one is {row.readable}.",
                field="number",
            )
        return {row.part: _pin(row, number)}

    def layouts(self, pins: Mapping[int, Pin]) -> dict[int, Layout]:
        """How the rows of each part are kept; raises `Purging`."""
        versions = [pin.dataset_version for pin in pins.values()]
        rows = self._state.read(SQL["layouts"], {"versions": versions})
        if any(row.is_marked for row in rows):
            raise Purging
        found = {row.dataset_version: _layout(row) for row in rows}
        return {part: found[pin.dataset_version] for part, pin in pins.items()}

    def first_rows(self, pins: Mapping[int, Pin], *, entries: int) -> tuple[list[PinnedPart], bool]:
        """The parts with the objects of their first commits only, and the ranges of all that a
        colder part takes from the parts before it; and whether commits with rows were left out."""
        layouts = self.layouts(pins)
        parts: list[PinnedPart] = []
        left_out = False
        for place, (part, pin) in enumerate(sorted(pins.items())):
            layout = layouts[part]
            found: tuple[Entry, ...] = ()
            if layout.backend is Backend.S3:
                found, more = self._entries(pin, entries, place > 0)
                left_out = left_out or more
            parts.append(
                PinnedPart(
                    pin, layout.backend, layout.update_strategy, layout.unique_key,
                    layout.columns, found,
                )
            )  # fmt: skip
        return parts, left_out

    def _entries(self, pin: Pin, limit: int, with_ranges: bool) -> tuple[tuple[Entry, ...], bool]:
        params = {
            "dataset_version": pin.dataset_version,
            "number": pin.number,
            "limit": limit + 1,
        }
        found = [_entry(row) for row in self._state.read(SQL["first_entries"], params)]
        first, more = found[:limit], len(found) > limit
        if not with_ranges:
            return tuple(first), more
        known = {each.number for each in first}
        rows = self._state.read(SQL["ranges"], params)
        return (*first, *(_entry(row) for row in rows if row.number not in known)), more


def stored_objects(fields: Any) -> tuple[StoredObject, ...]:
    """Objects as a commit recorded them."""
    return tuple(
        StoredObject(
            each["key"],
            each["bytes"],
            each["rows"],
            each["sha256"],
            each.get("minimum", {}),
            each.get("maximum", {}),
        )
        for each in fields or ()
    )


def _entry(row: Row) -> Entry:
    scope = Scope.parse(row.scope, row.range_start, row.range_end)
    cuts = tuple(Cut(*each) for each in row.cuts or ())
    objects = stored_objects(row.objects)
    return Entry(row.number, row.replaced_at, scope, objects, row.cursor_column, cuts)


def _layout(row: Row) -> Layout:
    return Layout(
        Backend(row.backend),
        UpdateStrategy(row.update_strategy),
        tuple(row.unique_key),
        tuple(Column(each["name"], each["type"]) for each in row.columns or ()),
    )


def _pin(row: Row, number: int) -> Pin:
    return Pin(DatasetUuid(row.dataset_uuid), DatasetVersion(row.dataset_version), number, row.swap)
