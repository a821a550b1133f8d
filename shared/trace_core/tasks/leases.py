"""Heartbeats: a runner that is alive keeps its lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, StaleAttempt
from trace_core.kernel.ids import OrgId
from trace_core.ports.clock import Clock
from trace_core.tasks.model import Fence, TaskStatus
from trace_core.tasks.statements import SQL


@dataclass(frozen=True)
class Heartbeat:
    status: TaskStatus
    """Running, or Canceled: then stop, and report the task as Canceled."""
    lease_expires_at: datetime


class Leases:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._state = state
        self._clock = clock
        self._timings = timings

    def heartbeat(self, org_id: OrgId, fence: Fence) -> Heartbeat:
        params = {
            "org_id": org_id,
            "task_id": fence.task_id,
            "attempt": fence.attempt,
            "lease_token": fence.lease_token,
            "now": self._clock.now(),
            "lease": self._timings.lease,
        }
        rows = self._state.write("heartbeat", SQL["heartbeat"], params)
        if rows:
            return Heartbeat(TaskStatus.RUNNING, rows[0].lease_expires_at)
        lease = self._state.read(SQL["fenced_lease"], params)
        if lease and lease[0].canceled_at is not None:
            return Heartbeat(TaskStatus.CANCELED, lease[0].lease_expires_at)
        if self._state.read(SQL["task_of_org"], params):
            raise StaleAttempt(task_id=str(fence.task_id))
        raise NotFound(task_id=str(fence.task_id))
