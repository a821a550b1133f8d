"""The first rows of a dataset, for people: few, small, and at a pin that can be read again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from trace_core.dag.model import Column
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.registry.read_rights import ReadRights
from trace_core.registry.reading import Moment, Pinning
from trace_core.storage.model import Backend, Pin

if TYPE_CHECKING:
    from trace_core.storage.reader import PinnedReader

_ENTRIES = 50
_EXACT_MAX = 2**53
"""Beyond it a reader of JSON may round a whole number."""

Value = str | int | float | bool | None


@dataclass(frozen=True)
class HeadRows:
    pins: dict[int, Pin]
    columns: tuple[Column, ...]
    rows: list[list[Value]]
    cut: bool


class Heads:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        rights: ReadRights,
        reader: Callable[[], PinnedReader],
    ) -> None:
        """`reader` is asked for when there is something to read."""
        self._state = state
        self._rights = rights
        self._reader = reader
        self._pinning = Pinning(state)
        self._audit = Audit(state, clock, ids)

    def head(
        self, org_id: OrgId, dataset: str, actor: Actor, at: Moment, *, limit: int
    ) -> HeadRows:
        found = self._rights.find(org_id, dataset, actor)
        pins = self._pinning.pins(org_id, dataset, at)
        parts, left_out = self._pinning.first_rows(pins, entries=_ENTRIES)
        if any(part.backend is Backend.CONTROL for part in parts):
            raise Invalid(f"{dataset} has announcements and no rows.", dataset=dataset)
        # A part that nothing was written to does not know its columns yet.
        written = [part for part in parts if part.columns]
        if not written:
            return HeadRows(pins, (), [], False)
        columns = written[0].columns
        rows: list[list[Value]] = []
        size, cut = 0, False
        with self._reader().relation(written) as batches:
            for batch in batches:
                for row in batch.to_pylist():
                    shown = [plain(row[column.name]) for column in columns]
                    size += len(json.dumps(shown))
                    cut = len(rows) >= limit or size > limits.HEAD_BYTES_MAX
                    if cut:
                        break
                    rows.append(shown)
                if cut:
                    break
        self._record(org_id, dataset, actor, found.pii, columns, len(rows))
        return HeadRows(pins, columns, rows, cut or left_out)

    def _record(
        self,
        org_id: OrgId,
        dataset: str,
        actor: Actor,
        pii: Sequence[str],
        columns: Sequence[Column],
        rows: int,
    ) -> None:
        """Reads of personal columns are written down; others are not."""
        personal = sorted({column.name for column in columns} & set(pii))
        if personal and rows:
            with self._state.transaction("read_pii") as tx:
                self._audit.record(
                    tx, org_id, actor, "dataset.read_pii", dataset, columns=personal, rows=rows
                )


def plain(value: object) -> Value:
    """A value as JSON holds it, exactly."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_MAX else str(value)
    if isinstance(value, float):
        # JSON has no word for infinity and for what is no number.
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)
