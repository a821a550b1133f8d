"""What a running attempt reads: an input by its alias, at the pin that its lease took."""

from __future__ import annotations

from typing import Any

from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, TaskCanceled
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId
from trace_core.registry.pins import PinResolver
from trace_core.storage.model import Pin, PinnedPart
from trace_core.storage.part_wire import part_fields
from trace_core.tasks.api import InputRequest
from trace_core.tasks.leases import Leases
from trace_core.tasks.model import TaskStatus
from trace_core.tasks.statements import SQL


class TaskInputs:
    def __init__(self, state: StateDatabase, leases: Leases, pins: PinResolver) -> None:
        self._state = state
        self._leases = leases
        self._pins = pins

    def resolve(self, org_id: OrgId, request: InputRequest) -> dict[str, Any]:
        """The parts of one input, with a page of the commits that meet the scope.

        `next` of a part is where its next page begins; None after the last one.
        """
        fence = request.fence
        if self._leases.heartbeat(org_id, fence).status is TaskStatus.CANCELED:
            raise TaskCanceled(task_id=str(fence.task_id))
        pins = self._read_pins(org_id, request)
        limit = limits.ENTRIES_PER_PAGE
        # One more than a page tells whether there is another one.
        parts = self._pins.resolve(
            pins,
            scope=request.scope.scope if request.scope else None,
            after=request.after,
            limit=limit + 1,
        )
        return {"parts": [_page(part, limit) for part in parts]}

    def _read_pins(self, org_id: OrgId, request: InputRequest) -> list[Pin]:
        params = {**vars(request.fence), "org_id": org_id, "alias": request.alias}
        pins = [
            Pin(
                DatasetUuid(row.dataset_uuid),
                DatasetVersion(row.dataset_version),
                row.number,
                row.swap,
            )
            for row in self._state.read(SQL["pins_of_input"], params)
            if request.dataset_version in (None, row.dataset_version)
        ]
        if not pins:
            raise NotFound(
                f"The task has no input {request.alias!r}"
                + (f" of version {request.dataset_version}." if request.dataset_version else "."),
                alias=request.alias,
            )
        return pins


def _page(part: PinnedPart, limit: int) -> dict[str, Any]:
    fields = part_fields(part)
    more = len(part.entries) > limit
    fields["entries"] = fields["entries"][:limit]
    fields["next"] = fields["entries"][-1]["number"] if more else None
    return fields
