"""A worker that is woken for a while: it takes what waits for its org, and ends.

Where nobody may work for longer than some minutes, as in a function, this takes the place of the
wrapper's loop. What it does with one attempt is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from trace_core.dag.model import Runtime
from trace_core.egress.gateway import EgressGateway
from trace_core.kernel.errors import Unavailable
from trace_core.ports.clock import Clock
from trace_core.ports.row_store import RowStore
from trace_core.ports.secret_store import SecretStore
from trace_core.worker.attempt import Attempt, Reason, RunControl
from trace_core.worker.children import ChildPool
from trace_core.worker.client import WorkerApi
from trace_core.worker.completions import Completions, Report
from trace_core.worker.heartbeats import Heartbeats
from trace_core.worker.logs import AttemptLogs
from trace_core.worker.rows import rows_for_workers
from trace_core.worker.supervision import Supervisor

CLAIM_SECONDS = 60.0
"""After this, whoever is woken next claims: a task that is claimed late would be cut short."""
REPORT_SECONDS = 20.0
"""Kept from the end for the reports of what had to be stopped."""
_CANCEL_GRACE = 5.0


@dataclass(frozen=True)
class Drained:
    claimed: int
    more: bool
    """Whether work may be left: then somebody else should be woken."""


class Drain:
    def __init__(
        self,
        api: WorkerApi,
        pool: ChildPool,
        *,
        worker_id: str,
        secrets: SecretStore,
        logs: AttemptLogs,
        clock: Clock,
        row_store: Callable[[], RowStore] | None = None,
        egress: EgressGateway | None = None,
    ) -> None:
        self._api = api
        self._pool = pool
        self._worker_id = worker_id
        self._supervisor = Supervisor(
            pool, clock=clock, secrets=secrets, logs=logs, rows=rows_for_workers(api, row_store),
            egress=egress,
        )  # fmt: skip

    def run(self, seconds: float, claim_seconds: float = CLAIM_SECONDS) -> Drained:
        """Work for less than `seconds`; what runs longer is handed back as a failed attempt."""
        started = time.monotonic()
        stop_at = started + max(seconds - REPORT_SECONDS, seconds / 2)
        heartbeats = Heartbeats(self._api.heartbeat, _CANCEL_GRACE)
        completions = Completions(self._api.complete, heartbeats.remove)
        runners = ThreadPoolExecutor(self._pool.size, thread_name_prefix="trace-task")
        running: set[Future[None]] = set()
        claimed, more = 0, True

        def run(attempt: Attempt, control: RunControl) -> None:
            outcome = self._supervisor.run(attempt, control)
            heartbeats.ending(attempt)
            if outcome is None:
                heartbeats.remove(attempt)
            else:
                completions.add(Report(attempt, outcome))

        try:
            while True:
                free = self._pool.size - len(running)
                claiming = time.monotonic() < min(started + claim_seconds, stop_at)
                if free and claiming:
                    answers = self._claim(free, patient=bool(running))
                    for answer in answers:
                        attempt, control = Attempt.of(answer), RunControl()
                        heartbeats.add(attempt, control)
                        running.add(runners.submit(run, attempt, control))
                    claimed += len(answers)
                    more = len(answers) == free
                if not running:
                    return Drained(claimed, more)
                left = max(0.0, stop_at - time.monotonic())
                done, running = wait(running, left, FIRST_COMPLETED)
                for each in done:
                    each.result()
                if not done:
                    return Drained(claimed, more=True)
        finally:
            heartbeats.interrupt_all(Reason.STOPPED, 0)
            runners.shutdown()
            completions.close(REPORT_SECONDS / 2)
            heartbeats.close()

    def _claim(self, limit: int, *, patient: bool) -> list[dict[str, Any]]:
        try:
            return self._api.claim(self._worker_id, Runtime.WORKER, limit)
        except Unavailable:
            # What runs may end well; with nothing running, the wake-up has to come again.
            if not patient:
                raise
            return []
