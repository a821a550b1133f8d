"""The worker wrapper: claims tasks, runs them in children, keeps their leases, reports them.

It is the boundary around operator code: only the wrapper holds the worker token and reads secrets.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from trace_core.dag.model import Runtime
from trace_core.egress.gateway import EgressGateway
from trace_core.kernel import limits
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
from trace_core.worker.wake_ups import WakeUps

_RETRY_PAUSE = 1.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WrapperSettings:
    worker_id: str
    poll_seconds: float = limits.LONG_POLL_MAX.total_seconds()
    """How long to rest without a wake-up; wake-ups are hints and may be lost."""
    listen_seconds: float = 5.0
    """One wait for wake-ups; stopping may take this long."""
    cancel_grace_seconds: float = 5.0
    stop_grace_seconds: float = 30.0
    """How long running tasks may take to finish after `stop`; then they are handed back."""
    report_grace_seconds: float = 10.0


class Wrapper:
    """`run` works until `stop`; the pool and the client are closed by whoever made them."""

    def __init__(
        self,
        api: WorkerApi,
        pool: ChildPool,
        *,
        wake_ups: WakeUps,
        secrets: SecretStore,
        logs: AttemptLogs,
        clock: Clock,
        settings: WrapperSettings,
        row_store: Callable[[], RowStore] | None = None,
        egress: EgressGateway | None = None,
    ) -> None:
        self._api = api
        self._pool = pool
        self._wake_ups = wake_ups
        self._settings = settings
        self._supervisor = Supervisor(
            pool, clock=clock, secrets=secrets, logs=logs, rows=rows_for_workers(api, row_store),
            egress=egress,
        )  # fmt: skip
        self._notes = _notes()
        self._stopping = False
        self._lock = threading.Lock()
        self._busy = 0
        self._receipts: list[str] = []

    def stop(self) -> None:
        """Claim nothing more and let `run` end. May be called from a signal handler."""
        self._stopping = True
        self._notes.put("stop")

    def run(self) -> None:
        """Raises what the platform answers to a claim, if no later one could do better."""
        settings = self._settings
        self._heartbeats = Heartbeats(self._api.heartbeat, settings.cancel_grace_seconds)
        self._completions = Completions(self._api.complete, self._heartbeats.remove)
        listener = threading.Thread(target=self._listen, name="trace-wake-ups", daemon=True)
        runners = ThreadPoolExecutor(self._pool.size, thread_name_prefix="trace-task")
        listener.start()
        try:
            while not self._stopping:
                self._rest(self._claim(runners))
        finally:
            self._stopping = True
            self._finish()
            runners.shutdown()
            self._completions.close(settings.report_grace_seconds)
            self._heartbeats.close()
            listener.join()

    def _claim(self, runners: ThreadPoolExecutor) -> float:
        """Fill the free children; answers how long to rest."""
        with self._lock:
            free = self._pool.size - self._busy
            receipts, self._receipts = self._receipts, []
        if free == 0:
            return self._settings.poll_seconds
        try:
            answers = self._api.claim(self._settings.worker_id, Runtime.WORKER, free)
        except Unavailable as error:
            logger.warning("no claim: %s", error.message)
            return min(_RETRY_PAUSE, self._settings.poll_seconds)
        for answer in answers:
            attempt, control = Attempt.of(answer), RunControl()
            with self._lock:
                self._busy += 1
            self._heartbeats.add(attempt, control)
            runners.submit(self._run, attempt, control)
        if receipts:
            # Only now: had we died before the claim, the hint would have woken somebody else.
            self._acknowledge(receipts)
        return self._settings.poll_seconds

    def _run(self, attempt: Attempt, control: RunControl) -> None:
        outcome = self._supervisor.run(attempt, control)
        self._heartbeats.ending(attempt)
        # Reported before the place is free: a task of few milliseconds then goes out with others.
        if outcome is None:
            self._heartbeats.remove(attempt)
        else:
            self._completions.add(Report(attempt, outcome))
        with self._lock:
            self._busy -= 1
        self._notes.put("finished")

    def _rest(self, seconds: float) -> None:
        """Until a wake-up, a finished task or a stop; however many of them count as one."""
        try:
            self._notes.get(timeout=seconds)
            while True:
                self._notes.get_nowait()
        except queue.Empty:
            return

    def _listen(self) -> None:
        wait = timedelta(seconds=self._settings.listen_seconds)
        while not self._stopping:
            with self._lock:
                full = self._busy >= self._pool.size
            if full:
                # A hint that we cannot follow is better left to another worker.
                time.sleep(0.05)
                continue
            try:
                receipts = self._wake_ups.wait(wait)
            except Exception as error:
                # Polling goes on without hints.
                if isinstance(error, Unavailable):
                    logger.warning("no wake-ups: %s", error.message)
                else:
                    logger.exception("no wake-ups")
                time.sleep(min(1.0, self._settings.listen_seconds))
                continue
            if receipts:
                with self._lock:
                    self._receipts.extend(receipts)
                self._notes.put("wake-up")

    def _acknowledge(self, receipts: list[str]) -> None:
        try:
            self._wake_ups.acknowledge(receipts)
        except Exception:
            logger.exception("wake-ups were not acknowledged; they will come again")

    def _finish(self) -> None:
        """Wait for running tasks, and hand back what takes longer than the grace."""
        give_up_at = time.monotonic() + self._settings.stop_grace_seconds
        while self._busy and (left := give_up_at - time.monotonic()) > 0:
            self._rest(left)
        self._heartbeats.interrupt_all(Reason.STOPPED, 0)


def _notes() -> queue.SimpleQueue[str]:
    # Not an Event: a signal handler may put while the main thread is in the middle of a get.
    return queue.SimpleQueue()
