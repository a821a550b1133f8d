"""The look at open runs: what the service says about each, and what follows.

An event of the service only makes a look come earlier. Runs whose event was lost are found here as
well, and a run of which nothing is known loses nothing: its lease is left alone until its end is
known.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from trace_core.database.state import Row
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, Unavailable
from trace_core.ports.clock import Clock
from trace_core.ports.spark_runner import RunState, SparkRunner
from trace_core.ports.waker import Function, Waker
from trace_core.spark.ending import Endings
from trace_core.spark.model import CANCEL, START, RunStep, SparkRun, pause_after, why_cancel
from trace_core.spark.store import RunStore

logger = logging.getLogger(__name__)
_BATCH, _BATCHES = 20, 5
"""Runs looked at one after the other, and how often in one pass: more than an application runs."""


@dataclass(frozen=True)
class WatchReport:
    looked: int = 0
    changed: int = 0
    ended: int = 0
    failed: int = 0
    """Looks that went wrong; they are taken again."""


@dataclass(frozen=True)
class RunFigures:
    """How many runs are open, and how long the slowest of each kind has waited."""

    open: int
    waiting_seconds: float
    cancel_seconds: float
    end_seconds: float


class RunWatch:
    def __init__(
        self,
        store: RunStore,
        runner: SparkRunner,
        endings: Endings,
        clock: Clock,
        waker: Waker,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._store = store
        self._runner = runner
        self._endings = endings
        self._clock = clock
        self._waker = waker
        self._timings = timings

    def chore(self) -> int:
        """One pass over what is due; answers how many runs changed."""
        changed = 0
        for _ in range(_BATCHES):
            report = self.run_once(_BATCH)
            changed += report.changed
            if report.looked < _BATCH:
                break
        return changed

    def hurry(self, run_id: str) -> bool:
        """Somebody says that a run has changed; what it is now is asked, not believed."""
        return self._store.hurry(run_id)

    def figures(self) -> RunFigures:
        now, row = self._clock.now(), self._store.figures()

        def age(since: datetime | None) -> float:
            return 0.0 if since is None else max((now - since).total_seconds(), 0.0)

        return RunFigures(
            row.open,
            age(row.oldest_waiting_at),
            age(row.oldest_cancel_at),
            age(row.oldest_end_at),
        )

    def run_once(self, limit: int = _BATCH) -> WatchReport:
        looked = changed = ended = failed = 0
        for run in self._store.take(limit, limits.SPARK_LOOK_HOLD):
            looked += 1
            again = self._timings.run_poll
            try:
                after = self._look(run)
                moved = (after.state, after.closed_at) != (run.state, run.closed_at)
                changed += moved
                ended += after.closed_at is not None
            except Exception as error:
                failed += 1
                again = pause_after(run, self._timings.run_poll)
                # One that fails must not keep the others waiting.
                if isinstance(error, Unavailable):
                    logger.warning("%s: %s", run, error.message)
                else:
                    logger.exception("%s could not be looked at", run)
            self._store.look_again(run, again)
        return WatchReport(looked, changed, ended, failed)

    def _look(self, run: SparkRun) -> SparkRun:
        if run.ended_at is None:
            run = self._unbegun(run) if run.run_id is None else self._observed(run)
        if run.ended_at is not None:
            return self._endings.end(run)
        return run

    def _observed(self, run: SparkRun) -> SparkRun:
        assert run.run_id is not None  # noqa: S101
        try:
            status = self._runner.status(run.run_id)
        except NotFound as error:
            return self._store.lost(run, error.message) or self._again(run)
        seen = self._store.observe(run, status)
        if seen is None:
            return self._again(run)
        if seen.ended_at is None:
            self._keep(seen)
        return seen

    def _keep(self, run: SparkRun) -> None:
        """A run that goes on: begin its attempt, keep its lease, or ask it to end."""
        lease = self._store.lease(run)
        if run.started_at is not None and lease is not None and lease.started_at is None:
            self._store.exchange(run, self._timings.lease)
            # Whoever else looks at this run may have been first: then it has begun all the same.
            lease = self._store.lease(run)
            if lease is not None and lease.started_at is None:
                # Its job may not run any more: whoever holds the reservation gives it back.
                lease = None
        self._end_if_due(run, lease)
        if run.state == RunState.RUNNING and run.cancel_requested_at is None:
            self._store.renew(run, self._timings.lease)

    def _unbegun(self, run: SparkRun) -> SparkRun:
        """One whose id is not known: not asked for yet, or nobody lived to store the answer."""
        self._end_if_due(run, self._store.lease(run))
        run = self._again(run)
        if run.run_id is not None or run.ended_at is not None:
            return run
        if run.cancel_requested_at is not None and run.start_tries == 0:
            self._store.never_began(run, RunStep.CANCELLED, "", refused=False)
            return self._again(run)
        if self._is_late(run):
            self._sweep(run, START)
        return run

    def _end_if_due(self, run: SparkRun, lease: Row | None) -> None:
        now = self._clock.now()
        reason = why_cancel(
            run,
            held=lease is not None,
            canceled=lease is not None and lease.canceled_at is not None,
            now=now,
            queue_limit=limits.SPARK_QUEUE,
        )
        if reason is not None:
            if self._store.request_cancel(run, reason):
                logger.info("%s is asked to end: %s", run, reason)
                self._waker.wake(Function.OUTBOX_RELAY)
        elif (
            run.cancel_requested_at is not None
            and run.run_id is not None
            and now - run.cancel_requested_at >= self._timings.sweep_grace
        ):
            self._sweep(run, CANCEL)

    def _is_late(self, run: SparkRun) -> bool:
        return self._clock.now() - run.prepared_at >= self._timings.sweep_grace

    def _sweep(self, run: SparkRun, kind: str) -> None:
        if self._store.sweep_row(run, kind):
            self._waker.wake(Function.OUTBOX_RELAY)

    def _again(self, run: SparkRun) -> SparkRun:
        """As it is by now: somebody else may have looked at it meanwhile."""
        return self._store.run(run) or run
