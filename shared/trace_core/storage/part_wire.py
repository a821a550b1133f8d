"""A part of a dataset at its pin, as it travels to whoever reads its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Backend, Cut, Entry, Pin, PinnedPart, StoredObject


def part_fields(part: PinnedPart) -> dict[str, Any]:
    return {
        **part.pin.fields(),
        "backend": part.backend.value,
        "update_strategy": part.update_strategy.value,
        "unique_key": list(part.unique_key),
        "columns": [{"name": each.name, "type": each.type} for each in part.columns],
        "cursor_column": part.cursor_column,
        "entries": [
            {
                "number": each.number,
                "replaced_at": each.replaced_at,
                "scope": each.scope.fields(),
                "objects": [stored.fields() for stored in each.objects],
                "cursor_column": each.cursor_column,
                "cuts": [[cut.at, cut.start, cut.end] for cut in each.cuts],
            }
            for each in part.entries
        ],
    }


def parse_part(fields: Mapping[str, Any]) -> PinnedPart:
    return PinnedPart(
        Pin.parse(fields),
        Backend(fields["backend"]),
        UpdateStrategy(fields["update_strategy"]),
        tuple(fields["unique_key"]),
        tuple(Column(each["name"], each["type"]) for each in fields["columns"]),
        tuple(_entry(each) for each in fields["entries"]),
        fields["cursor_column"],
    )


def joined(pages: Sequence[PinnedPart]) -> PinnedPart:
    """The pages of one part as one."""
    entries = tuple(entry for page in pages for entry in page.entries)
    return replace(pages[0], entries=entries)


def _entry(fields: Mapping[str, Any]) -> Entry:
    return Entry(
        fields["number"],
        fields["replaced_at"],
        Scope(**fields["scope"]),
        tuple(StoredObject(**each) for each in fields["objects"]),
        fields.get("cursor_column"),
        tuple(Cut(*each) for each in fields.get("cuts", ())),
    )
