"""The default timings and limits of the platform, each stated once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

TASK_LEASE = timedelta(seconds=120)
HEARTBEAT_INTERVAL = timedelta(seconds=30)
RESERVATION_LEASE = timedelta(seconds=60)
"""How long a reserved task may wait for its runner's start exchange."""
MAX_LAPSED_RESERVATIONS = 5
"""So many reservations in a row without an exchange count as one failed attempt."""

TASK_MAX_ATTEMPTS = 3
TASK_TIMEOUT = timedelta(seconds=900)
PLATFORM_MAX_TIMEOUT = timedelta(hours=24) - timedelta(minutes=5)
LAMBDA_MAX_TIMEOUT = timedelta(seconds=900)
CAPABILITY_TOKEN_GRACE = timedelta(minutes=5)
CAPABILITY_TOKEN_CAP = timedelta(hours=24)

USER_TOKEN_CAP = timedelta(hours=24)
"""A user token that lives longer is refused, whoever signed it."""
SUBJECT_MAX = 255
ISSUER_KEYS_TTL = timedelta(minutes=10)
ISSUER_KEYS_FLOOR = timedelta(seconds=30)
"""Between two fetches of the issuer's keys, whatever the tokens say."""
ISSUER_KEYS_STALE_MAX = timedelta(hours=1)
"""How long keys serve while their issuer does not answer, and a withdrawn one may still open."""

WORKER_TOKENS_VALID = 2
"""Of one name at once: the old one and the one that takes its place."""
WORKER_TOKEN_USE_RECORDED = timedelta(hours=1)
"""How coarse `last_used_at` of a worker token is."""
SECRET_VALUE_MAX = 65_536
WEBHOOK_TOLERANCE = timedelta(minutes=5)
WEBHOOK_BODY_MAX = 256 * 1024
WEBHOOK_ROTATION_GRACE = timedelta(hours=24)
"""How long the secret before the newest one still signs."""

TASK_BACKOFF_BASE = timedelta(seconds=30)
TASK_BACKOFF_CAP = timedelta(minutes=10)
OUTBOX_BACKOFF_BASE = timedelta(seconds=1)
OUTBOX_BACKOFF_CAP = timedelta(minutes=5)
OUTBOX_MAX_ATTEMPTS = 20
OUTBOX_LEASE = timedelta(seconds=30)
"""How long one relay may hold an outbox row before another takes it."""
YIELDS_KEPT = 64
"""Accepted slices of a source that are known again when they are reported twice."""
JOB_MEMORY = timedelta(seconds=5)
"""How long a process remembers the settings of a job."""
BACKFILL_WINDOW = 200
"""Tasks of one backfill that are open at once, unless it says otherwise."""
WAKE_FANOUT = 10
"""Messages sent for one committed batch of tasks: each woken worker drains its queue."""

CLAIM_BATCH_MAX = 500
COMPLETE_BATCH_MAX = 500
EVENTS_PER_CALL_MAX = 1000
OUTPUTS_PER_CALL_MAX = 1000
ENTRIES_PER_PAGE = 500
"""Commits of one part in one answer to a task that asks for its inputs."""
REQUEST_BODY_MAX = 4 * 1024 * 1024
STAGING_RETENTION = timedelta(days=7)
"""How long objects of an attempt that did not succeed wait for its late completion."""
OPERATOR_STATE_MAX = 1024 * 1024
QUEUE_MESSAGE_MAX = 256 * 1024
ERROR_MESSAGE_MAX = 4_000
ATTEMPT_LOG_MAX = 1024 * 1024 + 64 * 1024
"""A bounded log, and the traceback that it ends with."""
WORKER_ID_MAX = 200
LONG_POLL_MAX = timedelta(seconds=20)

HEAD_ROWS_MAX = 500
HEAD_BYTES_MAX = 1024 * 1024
"""Of the rows that people look at, as JSON."""
PURGE_PATIENCE = timedelta(hours=6)
"""How long a due purge may take before somebody should look."""
PURGE_GRACE = timedelta(hours=24, minutes=15)
"""From the mark to the deletion of a dataset version: longer than a reader of it can take."""

SPARK_QUEUE = timedelta(hours=1)
"""How long a Spark run may wait to begin, from when it was asked for."""
SPARK_LOOK_HOLD = timedelta(seconds=60)
"""How long whoever looks at a run has it to himself: copying its objects takes time."""
SPARK_END_TRIES = 20
"""So often what follows from a run's end is tried, before the attempt counts as failed."""
SPARK_END_PAUSE_MAX = timedelta(minutes=5)
"""Between two of those tries, which come less and less often: all take more than an hour."""
SPARK_OBJECT_MAX = 1024 * 1024 * 1024
"""One object of a run's output: the platform holds one in memory while it takes it over."""
TASK_INVALIDATIONS_MAX = 3
"""So often checks may declare the same scope of one dataset version invalid."""
REPAIR_TASKS_MAX = 100
"""Tasks that one bad scope asks of the job that wrote it."""

DAG_FILE_MAX = 1024 * 1024
DAG_JOBS_MAX = 500
HISTORY_MONTHS_AHEAD = 3
"""Partitions that exist before they are needed; their number is a metric with an alarm."""

RATE_WINDOW = timedelta(minutes=1)
"""Requests are counted in windows of this length, each beginning anew."""

WORKER_TOKEN_MEMORY = timedelta(seconds=10)
"""How long an API lets a worker token in without asking the database, revoked or not."""
SWEEP_GRACE = timedelta(seconds=60)
"""A wake-up this old without a claim is taken for lost and sent again."""

RUN_POLL = timedelta(seconds=20)
RUN_POLL_LITE = timedelta(seconds=1)
"""On one machine nobody tells of a run's change, and asking costs nothing."""


@dataclass(frozen=True)
class Timings:
    """How long a deployment waits for what; a demo or a drill sets them short."""

    lease: timedelta = TASK_LEASE
    reservation: timedelta = RESERVATION_LEASE
    backoff_base: timedelta = TASK_BACKOFF_BASE
    backoff_cap: timedelta = TASK_BACKOFF_CAP
    sweep_grace: timedelta = SWEEP_GRACE
    worker_token_memory: timedelta = WORKER_TOKEN_MEMORY
    run_poll: timedelta = RUN_POLL
    """Between two looks at a Spark run that nobody reports to have changed."""


DEFAULT_TIMINGS = Timings()


@dataclass(frozen=True)
class Quarantine:
    """When a slot is kept from work because its provider fails, and for how long."""

    failures: int = 3
    """Attempts in a row that ended by the provider's fault."""
    base: timedelta = timedelta(minutes=1)
    """The first time; it doubles with each further one."""
    cap: timedelta = timedelta(hours=1)


DEFAULT_QUARANTINE = Quarantine()


@dataclass(frozen=True)
class RequestLimits:
    """Requests to the user API in one window; what is over them is refused, not queued."""

    user: int = 100
    org: int = 1000
    query: int = 10
    """Of one user, to what reads data: expensive, and counted on its own."""
    hook: int = 600
    """Of one webhook source."""


DEFAULT_REQUEST_LIMITS = RequestLimits()
