"""What people see of an org's wake-up queues, and do when messages have died there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.queue import Queue, wake_queue

QUEUED = (Runtime.WORKER,)
"""The runtimes whose runners are woken by messages."""


class QueueAdmin:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, queue: Queue) -> None:
        self._state = state
        self._queue = queue
        self._audit = Audit(state, clock, ids)

    def depths(self, org_id: OrgId) -> list[dict[str, Any]]:
        """How many messages wait, are in flight, are dead."""
        return [
            {"runtime": runtime, "queue": name, **asdict(self._queue.depth(name))}
            for runtime in QUEUED
            for name in [wake_queue(runtime, org_id)]
        ]

    def redrive(self, org_id: OrgId, runtime: str, limit: int, actor: Actor) -> tuple[str, int]:
        """The queue, and how many dead messages went back to it."""
        if runtime not in QUEUED:
            raise NotFound(f"There is no queue for {runtime}; those of {', '.join(QUEUED)} exist.")
        name = wake_queue(runtime, org_id)
        # Written down first: the queue is not in this database, and nothing may move unseen.
        with self._state.transaction("audit_redrive") as tx:
            self._audit.record(tx, org_id, actor, "queue.redrive", runtime, limit=limit)
        return name, self._queue.redrive(name, limit=limit)
