"""What a task is and what may happen to it next: decisions, no I/O.

The hot path states the same rules in SQL; these functions are their plain words, and the oracle of
the property tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from uuid import UUID

from trace_core.kernel import limits
from trace_core.kernel.backoff import Jitter, delay
from trace_core.kernel.ids import LeaseToken, TaskId

NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""When an idle source is due: a request or nothing wakes it."""


class TaskStatus(StrEnum):
    QUEUED = "Queued"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Outcome(StrEnum):
    """How one attempt ended."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    LEASE_EXPIRED = "LeaseExpired"
    LAPSED = "Lapsed"
    CANCELED = "Canceled"
    SUPERSEDED = "Superseded"
    """Newer inputs were in the output already; no failure."""


class NotClaimed(StrEnum):
    """Why a task could not be claimed."""

    ALREADY_RUNNING = "AlreadyRunning"
    COMPLETED = "Completed"
    CANCELED = "Canceled"
    NOT_FOUND = "NotFound"
    NO_CAPACITY = "NoCapacity"
    HELD = "Held"
    NOT_DUE = "NotDue"
    FAILED = "Failed"
    FORBIDDEN = "Forbidden"


class Priority(IntEnum):
    """Smaller goes first."""

    LIVE = 0
    BACKFILL = 1


@dataclass(frozen=True)
class Fence:
    """What a mutation must name to be the current attempt's."""

    task_id: TaskId
    attempt: int
    lease_token: LeaseToken


@dataclass(frozen=True)
class AttemptRules:
    """What a job says about the attempts of its tasks."""

    is_source: bool
    max_attempts: int


@dataclass(frozen=True)
class AttemptEnd:
    """What follows from an attempt that did not succeed."""

    outcome: Outcome
    due_at: datetime | None
    """When the next attempt may start; None ends the task."""

    @property
    def final(self) -> bool:
        return self.due_at is None


def end_attempt(
    outcome: Outcome,
    *,
    failures: int,
    rules: AttemptRules,
    retryable: bool,
    now: datetime,
    jitter: Jitter,
    timings: limits.Timings = limits.DEFAULT_TIMINGS,
) -> AttemptEnd:
    """Retry with backoff while attempts are left; a source never ends, it backs off at the cap.

    `failures` counts the failed attempts in a row, this one included.
    """
    if outcome is Outcome.CANCELED:
        return AttemptEnd(outcome, None)
    may_retry = rules.is_source or (retryable and failures < rules.max_attempts)
    if not may_retry:
        return AttemptEnd(outcome, None)
    wait = delay(timings.backoff_base, timings.backoff_cap, failures - 1, jitter)
    return AttemptEnd(outcome, now + wait)


def expired_outcome(
    *, now: datetime, started: bool, canceled: bool, deadline_at: datetime
) -> Outcome:
    """Why the reaper takes a lease away."""
    if canceled:
        return Outcome.CANCELED
    if not started:
        return Outcome.LAPSED
    return Outcome.TIMED_OUT if deadline_at <= now else Outcome.LEASE_EXPIRED


def lapse_counts_as_failure(lapses: int) -> bool:
    """A lapsed reservation is sent again; so many in a row count as one failed attempt."""
    return lapses >= limits.MAX_LAPSED_RESERVATIONS


def version_prefix(org_id: UUID, dataset: UUID, version: UUID) -> str:
    """Where all objects of one dataset version lie."""
    return f"org/{org_id}/dataset/{dataset}/version/{version}/"


def staging_prefix(
    org_id: UUID,
    dataset: UUID,
    version: UUID,
    task_id: UUID,
    attempt: int,
    sequence: int,
    output: int,
) -> str:
    """Where one attempt (or slice) may write one output; nobody else ever writes there."""
    own = f"staging/{task_id}/{attempt}-{sequence}/{output}/"
    return version_prefix(org_id, dataset, version) + own


def table_location(dataset: UUID) -> str:
    return f"postgres_table:dataset_{dataset}"


def is_own_location(location: str, prefix: str, dataset: UUID) -> bool:
    """Under the attempt's staging prefix, or the dataset's own table."""
    if location == table_location(dataset):
        return True
    return location.startswith(prefix) and ".." not in location.split("/")


def token_lifetime(timeout: timedelta) -> timedelta:
    return min(timeout + limits.CAPABILITY_TOKEN_GRACE, limits.CAPABILITY_TOKEN_CAP)
