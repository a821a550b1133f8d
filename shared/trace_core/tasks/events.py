"""Accept events of a running task: record each once, make one task for each dependent job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_core.dag.model import Runtime
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, NotFound, StaleAttempt, TaskCanceled, Unavailable
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.api import EventIn, EventsRequest
from trace_core.tasks.model import Fence
from trace_core.tasks.statements import SQL

_TRIES = 5
RUNTIMES = len(Runtime)
"""A call wakes each runtime at most once, so it needs that many outbox ids at most."""


@dataclass(frozen=True)
class Accepted:
    accepted: int
    duplicates: int
    tasks_made: int


class ForeignOutput(Invalid):
    """An event names a dataset version that this task's job does not produce."""

    code = "ForeignOutput"


def event_params(events: Sequence[EventIn], ids: Ids) -> dict[str, Any]:
    """Events as parallel arrays, one element each."""
    bounds = [event.bounds for event in events]
    return {
        "event_ids": Uuids(ids.event_ids(len(events))),
        "event_datasets": Uuids([event.dataset_uuid for event in events]),
        "event_versions": Uuids([event.dataset_version for event in events]),
        "event_scopes": [event.scope_key for event in events],
        "event_starts": Bigints([start for start, _ in bounds]),
        "event_ends": Bigints([end for _, end in bounds]),
        "event_revisions": Bigints([event.revision for event in events]),
    }


def with_fresh_routes(accept: Callable[[], Row]) -> Row:
    """Ask again when routes changed between the look at them and the lock of the counters.

    A cutover or rollback is short and each can step in once, so a few times are plenty.
    """
    for _ in range(_TRIES):
        row = accept()
        if not row.moved:
            return row
    raise Unavailable("Where these events go changes faster than they can be accepted.")


class EventAcceptance:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker

    def accept(self, org_id: OrgId, request: EventsRequest) -> Accepted:
        """All events of the request or none; what was accepted before is a duplicate, no error."""
        params = {
            **event_params(request.events, self._ids),
            "org_id": org_id,
            "task_id": request.task_id,
            "attempt": request.attempt,
            "lease_token": request.lease_token,
            "now": self._clock.now(),
            "outbox_ids": Uuids(self._ids.many(RUNTIMES)),
            "wake_fanout": limits.WAKE_FANOUT,
        }
        row = with_fresh_routes(lambda: self._state.write("accept", SQL["accept"], params)[0])
        if not row.fenced:
            raise self._why_not(org_id, request.fence)
        if row.refused:
            raise ForeignOutput(task_id=str(request.task_id))
        if row.woken:
            self._waker.wake(Function.OUTBOX_RELAY)
        return Accepted(row.accepted, len(request.events) - row.accepted, row.tasks_made)

    def _why_not(self, org_id: OrgId, fence: Fence) -> Exception:
        params = {
            "org_id": org_id,
            "task_id": fence.task_id,
            "attempt": fence.attempt,
            "lease_token": fence.lease_token,
        }
        lease = self._state.read(SQL["fenced_lease"], params)
        if lease and lease[0].canceled_at is not None:
            return TaskCanceled(task_id=str(fence.task_id))
        if self._state.read(SQL["task_of_org"], params):
            return StaleAttempt(task_id=str(fence.task_id))
        return NotFound(task_id=str(fence.task_id))
