"""From a pin to all that is needed to read it, and from a published name to the pin of now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Backend, Cut, Entry, Pin, PinnedPart, StoredObject
from trace_core.storage.scopes import WHOLE

_SQL = Statements("trace_core.registry", "pins.sql")


class PinResolver:
    """Whoever asks has looked at the caller's rights; a pin never shows anything else later."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def resolve(
        self,
        pins: Sequence[Pin],
        *,
        scope: Scope | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[PinnedPart]:
        """One part for each pin, in their order, all in one statement.

        With a scope, the entries that meet it; with a limit, so many of each part, from beyond
        commit `after` on.
        """
        params: dict[str, Any] = {
            "versions": Uuids([pin.dataset_version for pin in pins]),
            "numbers": Bigints([pin.number for pin in pins]),
            "swaps": Bigints([pin.swap for pin in pins]),
            "after": after,
            "limit": limit,
        }
        if scope is None or scope == WHOLE:
            rows = self._state.read(_SQL["resolve"], params)
        else:
            start, end = scope.range or (None, None)
            meeting = {"scope": scope.key, "range_start": start, "range_end": end}
            rows = self._state.read(_SQL["resolve_scope"], params | meeting)
        found = {row.place: _part(row) for row in rows}
        if len(found) != len(pins):
            missing = next(pin for at, pin in enumerate(pins, 1) if at not in found)
            raise NotFound(dataset_version=str(missing.dataset_version))
        return [found[at] for at in range(1, len(pins) + 1)]

    def current_pins(self, org_id: OrgId, names: Sequence[str]) -> dict[str, tuple[Pin, ...]]:
        """The parts of each published dataset as they are now, in one statement."""
        wanted = sorted(set(names))
        rows = self._state.read(_SQL["current_pins"], {"org_id": org_id, "names": wanted})
        found: dict[str, list[Pin]] = {}
        for row in rows:
            found.setdefault(row.dataset_name, []).append(_pin(row))
        for name in wanted:
            if name not in found:
                raise NotFound(f"No dataset is published as {name}.", dataset=name)
        return {name: tuple(pins) for name, pins in found.items()}


def _part(row: Row) -> PinnedPart:
    return PinnedPart(
        _pin(row),
        Backend(row.backend),
        UpdateStrategy(row.update_strategy),
        tuple(row.unique_key),
        tuple(Column(each["name"], each["type"]) for each in row.columns or ()),
        tuple(_entry(each) for each in row.entries or ()),
    )


def _entry(fields: dict[str, Any]) -> Entry:
    return Entry(
        fields["number"],
        fields["replaced_at"],
        Scope.parse(fields["scope"], fields["start"], fields["end"]),
        tuple(StoredObject(**each) for each in fields["objects"] or ()),
        fields["cursor_column"],
        tuple(Cut(*each) for each in fields["cuts"] or ()),
    )


def _pin(row: Row) -> Pin:
    return Pin(
        DatasetUuid(row.dataset_uuid), DatasetVersion(row.dataset_version), row.number, row.swap
    )
