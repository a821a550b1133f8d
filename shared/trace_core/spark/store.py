"""Rows of runs: each change is one guarded statement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.ids import Ids, TaskId
from trace_core.ports.clock import Clock
from trace_core.ports.spark_runner import RunStatus
from trace_core.spark.model import CancelReason, SparkRun
from trace_core.tasks.statements import SQL as TASKS
from trace_core.worker.outcome import storable

SQL = Statements("trace_core.spark", "spark.sql")


_DETAIL_MAX = 2000


def run_of(rows: list[Row]) -> SparkRun | None:
    return SparkRun(**rows[0]._asdict()) if rows else None


class RunStore:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids

    def prepare(self, task_id: TaskId, start_token: UUID, poll: timedelta) -> bool:
        """Fix what the run reads, and ask the relay to start it."""
        return self._write(
            TASKS["prepare_run"], "prepare_run",
            task_id=task_id, start_token=start_token, poll=poll, outbox_id=self._ids.uuid(),
        )  # fmt: skip

    def open_run(self, task_id: TaskId) -> SparkRun | None:
        return run_of(self._state.read(SQL["open_run"], {"task_id": task_id}))

    def unbegun(self) -> int:
        """Runs that are asked for, and that the service may not know yet."""
        return int(self._state.read(SQL["unbegun"], {})[0].count)

    def run(self, run: SparkRun) -> SparkRun | None:
        return run_of(self._state.read(SQL["run"], run.key))

    def lease(self, run: SparkRun) -> Row | None:
        rows = self._state.read(TASKS["lease_of_run"], vars(run))
        return rows[0] if rows else None

    def trigger(self, run: SparkRun) -> Row:
        return self._state.read(TASKS["run_with_trigger"], run.key)[0]

    def take(self, limit: int, hold: timedelta) -> list[SparkRun]:
        params = {"now": self._clock.now(), "limit": limit, "hold": hold}
        rows = self._state.write("take_runs", SQL["take_runs"], params)
        return [SparkRun(**row._asdict()) for row in rows]

    def hurry(self, run_id: str) -> bool:
        return self._write(SQL["run_by_id"], "hurry_run", run_id=run_id)

    def look_again(self, run: SparkRun, after: timedelta) -> None:
        now = self._clock.now()
        self._write(SQL["look_again"], "look_again", **run.key, look_at=now + after)

    def begin_start(self, run: SparkRun) -> Row | None:
        """Before the service is asked, so that a crash in between is known afterwards."""
        rows = self._state.write("begin_start", SQL["begin_start"], run.key)
        return rows[0] if rows else None

    def keep_run_id(self, run: SparkRun, run_id: str) -> None:
        self._write(SQL["keep_run_id"], "keep_run_id", **run.key, run_id=run_id)

    def observe(self, run: SparkRun, status: RunStatus) -> SparkRun | None:
        now, usage = self._clock.now(), status.usage
        # Whatever runs has begun, also if the service does not say when.
        begun = status.started_at or (now if status.state.value == "RUNNING" else None)
        rows = self._state.write(
            "observe_run",
            SQL["observe"],
            {
                **run.key,
                "state": status.state.value,
                "detail": _kept(status.detail) or None,
                "submitted_at": status.submitted_at,
                "started_at": begun,
                "ended_at": (status.ended_at or now) if status.state.has_ended else None,
                "queued_seconds": status.queued_seconds,
                "vcpu_hours": usage.vcpu_hours if usage else None,
                "memory_gb_hours": usage.memory_gb_hours if usage else None,
                "storage_gb_hours": usage.storage_gb_hours if usage else None,
            },
        )
        return run_of(rows)

    def never_began(self, run: SparkRun, state: str, detail: str, *, refused: bool) -> bool:
        return self._write(
            SQL["never_began"], "never_began",
            **run.key, state=state, detail=_kept(detail), refused=refused,
        )  # fmt: skip

    def lost(self, run: SparkRun, detail: str) -> SparkRun | None:
        params = {**run.key, "detail": _kept(detail), "now": self._clock.now()}
        return run_of(self._state.write("lost_run", SQL["lost_run"], params))

    def exchange(self, run: SparkRun, lease: timedelta) -> bool:
        """The reservation becomes the attempt that this run was prepared as."""
        now = self._clock.now()
        return self._write(
            TASKS["exchange_run"], "exchange_run",
            **run.key, lease_token=self._ids.token(), lease=lease,
            worker_id=f"spark:{run.run_id or run.client_token}"[:200],
            started_at=min(run.started_at or now, now),
        )  # fmt: skip

    def renew(self, run: SparkRun, lease: timedelta) -> bool:
        return self._write(SQL["renew_lease"], "renew_lease", **run.key, lease=lease)

    def request_cancel(self, run: SparkRun, reason: CancelReason) -> bool:
        return self._write(
            SQL["request_cancel"], "request_cancel",
            **run.key, reason=reason.value, outbox_id=self._ids.uuid(),
        )  # fmt: skip

    def sweep_row(self, run: SparkRun, kind: str) -> bool:
        return self._write(
            SQL["sweep_row"], "sweep_spark_row",
            org_id=run.org_id, kind=kind, target=str(run.task_id), task_id=run.task_id,
            outbox_id=self._ids.uuid(),
        )  # fmt: skip

    def count_end_try(self, run: SparkRun) -> int:
        rows = self._state.write("count_end_try", SQL["count_end_try"], run.key)
        return int(rows[0].end_tries) if rows else 0

    def close(self, run: SparkRun) -> bool:
        return self._write(SQL["close"], "close_run", **run.key)

    def outcome(self, run: SparkRun) -> str | None:
        rows = self._state.read(SQL["outcome_of_attempt"], vars(run))
        return rows[0].outcome if rows else None

    def figures(self) -> Row:
        return self._state.read(SQL["figures"], {})[0]

    def _write(self, statement: str, name: str, **params: Any) -> bool:
        return bool(self._state.write(name, statement, {"now": self._clock.now(), **params}))


def _kept(detail: str) -> str:
    """It may quote what the operator read, and a run whose end cannot be stored would never end."""
    return storable(detail)[:_DETAIL_MAX]
