"""A run of a PySpark operator and what may happen to it next: decisions, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from trace_core.kernel import limits
from trace_core.kernel.ids import JobId, OrgId, TaskId
from trace_core.spark.layout import RunFolder

START = "spark_start"
CANCEL = "spark_cancel"
"""Kinds of outbox rows; their target is the task."""


class RunStep(StrEnum):
    """Where a run is: the words of the service, and those for what it never knew."""

    PREPARED = "PREPARED"
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    REFUSED = "REFUSED"
    """The service will never take it."""
    LOST = "LOST"
    """The service does not know it any more."""


class CancelReason(StrEnum):
    CANCELED = "Canceled"
    """Its task was."""
    TIMED_OUT = "TimedOut"
    """It ran longer than its job allows."""
    QUEUE_TIMED_OUT = "QueueTimedOut"
    """It did not begin in time."""
    GONE = "Gone"
    """Nobody waits for it any more: its lease has ended."""


@dataclass(frozen=True)
class SparkRun:
    """One row of `spark_runs`."""

    task_id: TaskId
    start_number: int
    org_id: OrgId
    job_id: JobId
    attempt: int
    lease_sequence: int
    start_token: UUID
    pins: str
    timeout_seconds: int
    run_id: str | None
    state: str
    detail: str | None
    prepared_at: datetime
    start_tries: int
    submitted_at: datetime | None
    started_at: datetime | None
    exchanged_at: datetime | None
    ended_at: datetime | None
    queued_seconds: float | None
    vcpu_hours: float | None
    memory_gb_hours: float | None
    storage_gb_hours: float | None
    cancel_reason: str | None
    cancel_requested_at: datetime | None
    closed_at: datetime | None
    look_at: datetime
    end_tries: int

    @property
    def key(self) -> dict[str, Any]:
        return {"task_id": self.task_id, "start_number": self.start_number}

    @property
    def client_token(self) -> str:
        """The same token again is the same run, whoever crashed between call and answer."""
        return f"{self.task_id}-{self.attempt}-{self.start_number}"

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.org_id, self.task_id, self.attempt, self.start_number)

    @property
    def timeout(self) -> timedelta:
        return timedelta(seconds=self.timeout_seconds)

    @property
    def ran_too_long(self) -> bool:
        """It ended for lack of time, by our cancel or by the service's own limit."""
        if self.cancel_reason == CancelReason.TIMED_OUT:
            return True
        if self.started_at is None or self.ended_at is None:
            return False
        return self.ended_at - self.started_at >= self.timeout

    def __str__(self) -> str:
        return f"run {self.start_number} of task {self.task_id} attempt {self.attempt}"


def why_cancel(
    run: SparkRun, *, held: bool, canceled: bool, now: datetime, queue_limit: timedelta
) -> CancelReason | None:
    """Why a run that has not ended should: its time counts from when it began to run.

    `held`: its reservation or lease is there; `canceled`: its task was canceled meanwhile.
    """
    if run.cancel_requested_at is not None:
        return None
    if not held:
        return CancelReason.GONE
    if canceled:
        return CancelReason.CANCELED
    if run.started_at is not None:
        return CancelReason.TIMED_OUT if now >= run.started_at + run.timeout else None
    return CancelReason.QUEUE_TIMED_OUT if now >= run.prepared_at + queue_limit else None


def pause_after(run: SparkRun, poll: timedelta) -> timedelta:
    """Until the next look at a run whose last look went wrong.

    A run that has ended costs nothing while it waits, and its rows are all there: what its end
    needs may be away for longer than a few looks.
    """
    doubled: int = 2 ** min(run.end_tries, 20)
    return min(poll * doubled, limits.SPARK_END_PAUSE_MAX)
