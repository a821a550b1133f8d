"""What the user API answers about DAGs, tasks, events and what moves them."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_core.dag.model import Activation, Runtime
from trace_core.http.wire import Page, Time, Wire
from trace_core.outbox.model import OutboxStatus
from trace_core.tasks.model import Outcome, TaskStatus


def _absent(value: object) -> bool:
    return value is None


class Counts(Wire):
    queued: int
    running: int
    retrying: int
    failed: int
    completed_24h: int = Field(
        description="Tasks that were made in the last 24 hours and have completed."
    )


class JobStatus(Counts):
    dag: str
    job: str
    operator: str
    runtime: Runtime
    activation: Activation
    standing: Literal["active", "held", "candidate"] = Field(
        description="`candidate`: of a version that is built; `held`: waits for that build."
    )
    forbidden: bool = Field(
        description="It may not read one of its inputs: whoever deployed it has lost that right."
    )
    paused: bool
    oldest_ready_at: Time | None


class OutboxCounts(Wire):
    pending: int
    failed: int
    oldest_pending_at: Time | None


class Status(Wire):
    """Backlog and progress."""

    now: Time
    jobs: list[JobStatus]
    totals: Counts
    outbox: OutboxCounts


class Dag(Wire):
    dag_id: UUID
    name: str
    version: int | None = Field(description="The active version.")
    activated_at: Time | None
    paused_at: Time | None
    jobs: int


class DagPage(Page):
    dags: list[Dag]


class Job(Wire):
    job_id: UUID
    job: str
    operator: str
    runtime: Runtime
    activation: Activation
    source_kind: Literal["always_on", "cron", "manual", "webhook"] | None
    max_attempts: int
    timeout_seconds: int


class DagDetail(Wire):
    """One DAG, with the jobs of its active version."""

    dag_id: UUID
    name: str
    version: int | None = Field(description="The active version.")
    activated_at: Time | None
    paused_at: Time | None
    created_at: Time
    created_by: str | None
    deploy_roles: list[str]
    jobs: list[Job]


class DagVersion(Wire):
    number: int
    active: bool
    content_sha256: str = Field(description="Of what the file means, not of its text.")
    created_at: Time
    created_by: str | None
    candidate: bool = Field(description="It is being built, and becomes active afterwards.")
    activated_at: Time | None = Field(description="When it became active last.")
    jobs: int


class DagVersionPage(Page):
    versions: list[DagVersion]


class DagVersionDetail(DagVersion):
    """One version of a DAG with its file."""

    dag: str
    text: str = Field(description="The file as it was deployed.")


class DagState(Wire):
    dag: str
    paused: bool


class DagRoles(Wire):
    dag: str
    deploy_roles: list[str]


class Asked(Wire):
    dag: str
    job: str
    number: int = Field(description="Counts the requests to this source.")


class Received(Wire):
    number: int = Field(description="Counts the requests to this source.")


class Scope(Wire):
    """Which part of a dataset: one cursor, one partition (often a range), or, empty, all of it."""

    cursor: int | None = Field(None, exclude_if=_absent)
    partition_key: str | None = Field(None, exclude_if=_absent)
    start: int | None = Field(None, exclude_if=_absent)
    end: int | None = Field(None, exclude_if=_absent)


class Task(Wire):
    task_id: UUID
    job_id: UUID
    dag: str
    job: str
    operator: str
    activation: Activation
    status: TaskStatus
    attempt: int
    max_attempts: int
    scope: Scope | None
    revision: int | None
    event_id: UUID | None
    producer_task_id: UUID | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    due_at: Time | None
    worker_id: str | None
    lease_expires_at: Time | None
    canceled_at: Time | None
    late: bool | None
    error_code: str | None
    error_message: str | None
    waits_for: str | None = Field(description="Why a queued task does not run, for people.")


class TaskPage(Page):
    tasks: list[Task]


class Attempt(Wire):
    attempt: int
    outcome: Outcome
    final: bool
    late: bool
    leased_at: Time | None
    started_at: Time | None
    ended_at: Time
    worker_id: str | None
    lease_sequence: int
    error_code: str | None
    error_message: str | None


class AttemptPage(Page):
    """Attempts that have ended, the first one first."""

    attempts: list[Attempt]


class TaskRun(Wire):
    """One Spark run of a task: times apart, and what it used."""

    attempt: int
    start_number: int
    run_id: str | None
    state: str
    detail: str | None
    cancel_reason: str | None
    prepared_at: Time
    submitted_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    queued_seconds: float | None = Field(description="Waiting for room.")
    startup_seconds: float | None = Field(description="From there until it ran.")
    run_seconds: float | None
    vcpu_hours: float | None
    memory_gb_hours: float | None
    storage_gb_hours: float | None


class TaskInput(Wire):
    attempt: int
    lease_sequence: int
    input_index: int
    dataset_version: UUID
    commit_number: int | None


class TaskOutput(Wire):
    attempt: int
    output_index: int
    scope: Scope
    dataset_version: UUID
    location: str
    row_count: int | None


class TaskEvent(Wire):
    event_id: UUID
    dataset_version: UUID
    scope: Scope
    revision: int
    accepted_at: Time


class TaskDetail(Task):
    """One task: where it is, what made it, each attempt, what it read, wrote and announced."""

    attempts: list[Attempt]
    runs: list[TaskRun] = Field(description="Of `runtime: emr_serverless`: its Spark runs.")
    inputs: list[TaskInput]
    outputs: list[TaskOutput]
    events: list[TaskEvent] = Field(description="The newest; GET /v1/events has all.")


class Log(Wire):
    attempt: int
    lease_sequence: int
    text: str


class Logs(Wire):
    """The newest logs of a task, the oldest of them first."""

    logs: list[Log]


class TaskState(Wire):
    task_id: UUID
    status: TaskStatus


class Event(TaskEvent):
    dag: str
    job: str
    task_id: UUID = Field(description="The task that announced it.")
    attempt: int
    dataset_uuid: UUID


class EventPage(Page):
    """The newest first. A page may hold fewer than `limit`, or none, and still have a next one."""

    events: list[Event]


class OutboxRow(Wire):
    outbox_id: UUID
    kind: str
    target: str
    tasks: int
    status: OutboxStatus
    attempts: int
    created_at: Time
    available_at: Time
    last_error: str | None


class OutboxPage(Page):
    rows: list[OutboxRow]


class OutboxDone(Wire):
    reset: int


class QueueDepths(Wire):
    runtime: Runtime
    queue: str
    visible: int
    in_flight: int
    dead: int


class Queues(Wire):
    queues: list[QueueDepths]


class Redriven(Wire):
    queue: str
    moved: int


class Counter(Wire):
    kind: Literal["org", "pool", "job", "deploy"]
    dag: str | None
    name: str
    max_running: int | None
    reserved_for_live: int
    running: int
    running_backfill: int
    max_starts_hourly: int | None
    starts_this_hour: int


class Counters(Wire):
    """The org's quota first, then worker pools and jobs with a `max_concurrency`."""

    counters: list[Counter]


class Quota(Wire):
    max_running: int | None
    reserved_for_live: int
    max_starts_hourly: int | None


class QuotaCleared(Wire):
    cleared: bool


class Slot(Wire):
    dag: str
    pool: str
    slot: str
    upstreams: list[str]
    """What its environment names; the provider behind it."""
    state: Literal["free", "held", "quarantined"]
    task_id: UUID | None
    quarantined_until: Time | None
    failures: int
    """Attempts in a row that ended by the provider's fault."""
    last_fault: str | None
    last_fault_at: Time | None
    last_used_at: Time | None
    requests: int
    retries: int
    rate_limited: int
    errors: int
    bytes: int
    latency_ms: int
    """Of all its requests together."""


class Slots(Wire):
    slots: list[Slot]


class SlotReleased(Wire):
    released: bool
    """Whether it was in quarantine."""
