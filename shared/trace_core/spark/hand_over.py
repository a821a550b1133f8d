"""From a ready task of `runtime: emr_serverless` to a run that is asked for.

The relay reserves as many as there is room for; what each reads is fixed here. Another row of the
outbox then starts the run, so that a crash anywhere asks for the same one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.ids import Ids
from trace_core.outbox.relay import Send
from trace_core.ports.clock import Clock
from trace_core.ports.spark_runner import SparkRunner
from trace_core.ports.waker import Function, Waker
from trace_core.spark.store import RunStore
from trace_core.tasks.attempt_ends import LeaseEnd, end_leases
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.invoke import reserve_ready
from trace_core.tasks.statements import SQL as TASKS

PAUSE = timedelta(seconds=10)
"""How long a task waits while its earlier run is still about to end."""


class HandOver:
    def __init__(
        self, state: StateDatabase, store: RunStore, clock: Clock, ids: Ids, waker: Waker
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._ids = ids
        self._waker = waker

    def send(
        self,
        claims: Claims,
        runner: SparkRunner,
        jitter: Jitter,
        *,
        concurrency: int | None,
        poll: timedelta,
    ) -> Send:
        """What a wake-up of this runtime does."""

        def hand_over(reserved: Sequence[Claimed]) -> None:
            for each in reserved:
                self._prepare(each, poll)

        def free() -> int:
            # It does not know those that are about to be started.
            return runner.room() - self._store.unbegun()

        return reserve_ready(
            claims, Runtime.EMR_SERVERLESS, free, hand_over, jitter, concurrency=concurrency
        )

    def _prepare(self, reserved: Claimed, poll: timedelta) -> None:
        assert reserved.start_token is not None  # noqa: S101  a reservation has one
        self._state.crash_points("spark_prepare:before")
        if self._store.prepare(reserved.task_id, reserved.start_token, poll):
            # The row that starts it may be taken at once.
            self._waker.wake(Function.OUTBOX_RELAY)
        elif self._store.open_run(reserved.task_id) is not None:
            self._put_off(reserved)

    def _put_off(self, reserved: Claimed) -> None:
        """The next attempt needs the end of the run before it. To wait for that is no lapse."""
        now = self._clock.now()
        params = {"org_id": reserved.org_id, "task_id": reserved.task_id}
        with self._state.transaction("put_off_run") as tx:
            lease = tx.one(TASKS["lock_lease"], params)
            if lease is None or lease.start_token != reserved.start_token or lease.started_at:
                return
            end = LeaseEnd(
                lease.task_id, lease.lease_sequence, None, None, now + PAUSE,
                failures=lease.failures, lapses=lease.lapses, continues=lease.continues,
            )  # fmt: skip
            end_leases(tx, reserved.org_id, [end], now=now, ids=self._ids)
