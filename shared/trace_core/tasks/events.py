"""Accept events of a running task: record each once, make one task for each dependent job.

Outputs that come along are committed in the same transaction, and announce themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, StaleAttempt, TaskCanceled
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.announcements import (
    RUNTIMES,
    ForeignOutput,
    event_params,
    with_fresh_routes,
)
from trace_core.tasks.api import EventsRequest
from trace_core.tasks.model import Fence
from trace_core.tasks.outputs import CommittedOutput, ReadManifest, ReadRecords
from trace_core.tasks.results import Results
from trace_core.tasks.statements import SQL

__all__ = ["RUNTIMES", "Accepted", "EventAcceptance", "ForeignOutput"]


@dataclass(frozen=True)
class Accepted:
    accepted: int
    duplicates: int
    tasks_made: int
    commits: tuple[CommittedOutput, ...] = ()


class EventAcceptance:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        read_manifest: ReadManifest | None = None,
        read_records: ReadRecords | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._results = Results(state, ids, read_manifest, read_records)

    def accept(self, org_id: OrgId, request: EventsRequest) -> Accepted:
        """All of the request or none; what was accepted before is a duplicate, no error."""
        if request.outputs:
            return self._commit(org_id, request)
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
            # Of another job, or of an output with rows: that takes a closer look.
            return self._commit(org_id, request)
        if row.woken:
            self._waker.wake(Function.OUTBOX_RELAY)
        return Accepted(row.accepted, len(request.events) - row.accepted, row.tasks_made)

    def _commit(self, org_id: OrgId, request: EventsRequest) -> Accepted:
        prepared = self._results.prepare(org_id, request)
        with self._state.transaction("commit_outputs") as tx:
            lease = tx.one(SQL["lock_lease"], {"org_id": org_id, "task_id": request.task_id})
            if (
                lease is None
                or lease.started_at is None
                or lease.canceled_at is not None
                or (lease.attempt, lease.lease_token) != (request.attempt, request.lease_token)
            ):
                done = None
            else:
                done = self._results.write(
                    tx, org_id, request, lease.job_id, lease.lease_sequence, self._clock.now(),
                    prepared,
                )  # fmt: skip
        if done is None:
            raise self._why_not(org_id, request.fence)
        if done.woke:
            self._waker.wake(Function.OUTBOX_RELAY)
        return Accepted(done.accepted, done.duplicates, done.tasks_made, done.commits)

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
