"""Every function of the control plane: its size, its place, and what it needs from outside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Need(StrEnum):
    """One reason to be told an address and to be allowed to use it; see `needs.py`."""

    STATE = "state"
    DATA = "data"
    ARROW = "arrow"
    READ_ROWS = "read_rows"
    WRITE_ROWS = "write_rows"
    CLEAN_STAGING = "clean_staging"
    WAKE_RELAY = "wake_relay"
    WAKE_DISPATCHER = "wake_dispatcher"
    SIGN_TOKENS = "sign_tokens"
    VERIFY_TOKENS = "verify_tokens"
    READ_LOGS = "read_logs"
    WRITE_LOGS = "write_logs"
    SEND_WAKE_UPS = "send_wake_ups"
    HEAR_WAKE_UPS = "hear_wake_ups"
    TEND_QUEUES = "tend_queues"
    INVOKE_RUNNER = "invoke_runner"
    START_SPARK = "start_spark"
    FOLLOW_SPARK = "follow_spark"
    WORKER_TOKENS = "worker_tokens"
    USER_SECRETS = "user_secrets"
    WRITE_USER_SECRETS = "write_user_secrets"
    WEBHOOK_SECRETS = "webhook_secrets"
    INTERNAL_API = "internal_api"
    TASK_API = "task_api"
    OPERATORS = "operators"
    CHILDREN = "children"
    UPSTREAMS = "upstreams"
    IDENTITY = "identity"
    CREDENTIALS = "credentials"


class Place(StrEnum):
    """Where in the network a function stands; each place has a security group of its own."""

    CONTROL = "control"
    """Reaches the databases and AWS services."""
    OUTBOUND = "outbound"
    """As control, and the internet: for the keys of the identity provider."""
    WORKER = "worker"
    """Reaches the internal API, the task API, the data database and AWS services; not the state
    database. The internet only where the environment names upstreams."""
    RUNNER = "runner"
    """Reaches the task API, the data database and AWS services: neither the internal API nor the
    state database."""


@dataclass(frozen=True)
class Function:
    name: str
    place: Place
    needs: frozenset[Need]
    timeout_seconds: int
    memory_mb: int = 512
    asynchronous: bool = False
    """Invoked without anybody waiting. Lambda must not try again: the platform does, by its own
    record of what is left to do."""
    every_minute: bool = False


API_TIMEOUT = 28
"""Below the 29 s after which API Gateway stops waiting."""
SWEEP_TIMEOUT = 90
"""Twice the 45 s for which these functions go on taking work."""
LONGEST_TIMEOUT = 900

FUNCTIONS = (
    Function(
        "migrate",
        Place.CONTROL,
        # The first administrator of an org is a subject of the identity provider.
        frozenset({Need.STATE, Need.DATA, Need.WORKER_TOKENS, Need.IDENTITY}),
        timeout_seconds=LONGEST_TIMEOUT,
    ),
    Function(
        "user_api",
        Place.OUTBOUND,
        frozenset(
            {
                *(Need.STATE, Need.WAKE_RELAY, Need.WAKE_DISPATCHER),
                *(Need.READ_LOGS, Need.OPERATORS, Need.IDENTITY, Need.TEND_QUEUES),
                *(Need.WRITE_USER_SECRETS, Need.WEBHOOK_SECRETS),
                # A deploy makes tables; people look at rows.
                *(Need.DATA, Need.ARROW, Need.READ_ROWS),
            }
        ),
        timeout_seconds=API_TIMEOUT,
    ),
    Function(
        "internal_api",
        Place.CONTROL,
        # A completion names manifests, which are compared with what lies there.
        frozenset({Need.STATE, Need.WAKE_RELAY, Need.SIGN_TOKENS, Need.READ_ROWS}),
        timeout_seconds=API_TIMEOUT,
        memory_mb=1024,
    ),
    Function(
        "task_api",
        Place.CONTROL,
        frozenset(
            {
                *(Need.STATE, Need.WAKE_RELAY, Need.SIGN_TOKENS, Need.VERIFY_TOKENS),
                *(Need.CREDENTIALS, Need.WRITE_LOGS, Need.READ_ROWS),
            }
        ),
        timeout_seconds=API_TIMEOUT,
        memory_mb=1024,
    ),
    Function(
        "dispatcher",
        Place.CONTROL,
        # It builds the payloads of control work as for any runner, tokens included, and registers
        # what was committed in the data database and not reported.
        frozenset(
            {
                *(Need.STATE, Need.WAKE_RELAY, Need.SIGN_TOKENS, Need.OPERATORS),
                # Checks of a candidate read its rows.
                *(Need.DATA, Need.ARROW, Need.READ_ROWS),
                # It looks after runs whose event was lost, and takes over what they left.
                *(Need.FOLLOW_SPARK, Need.WRITE_ROWS, Need.WRITE_LOGS),
            }
        ),
        timeout_seconds=SWEEP_TIMEOUT,
        memory_mb=1024,
        asynchronous=True,
        every_minute=True,
    ),
    Function(
        "reaper",
        Place.CONTROL,
        frozenset({Need.STATE, Need.WAKE_RELAY}),
        timeout_seconds=SWEEP_TIMEOUT,
        asynchronous=True,
        every_minute=True,
    ),
    Function(
        "outbox_relay",
        Place.CONTROL,
        frozenset(
            {
                *(Need.STATE, Need.SEND_WAKE_UPS, Need.INVOKE_RUNNER, Need.WAKE_DISPATCHER),
                # Views of published names follow their pointers; a Spark run gets the rows of
                # its inputs that lie in Postgres as objects.
                *(Need.DATA, Need.START_SPARK, Need.SIGN_TOKENS),
                *(Need.OPERATORS, Need.ARROW, Need.READ_ROWS),
            }
        ),
        timeout_seconds=SWEEP_TIMEOUT,
        asynchronous=True,
        every_minute=True,
    ),
    Function(
        "emr_events",
        Place.CONTROL,
        # A run has changed its state: what it left is looked through, copied and completed.
        frozenset(
            {
                *(Need.STATE, Need.DATA, Need.ARROW, Need.WAKE_RELAY, Need.SIGN_TOKENS),
                *(Need.FOLLOW_SPARK, Need.READ_ROWS, Need.WRITE_ROWS, Need.WRITE_LOGS),
                Need.OPERATORS,
            }
        ),
        timeout_seconds=5 * 60,
        memory_mb=2048,
        asynchronous=True,
    ),
    Function(
        "staging_cleanup",
        Place.CONTROL,
        # A purge deletes objects where attempts wrote them, and drops tables.
        frozenset({Need.STATE, Need.CLEAN_STAGING, Need.DATA}),
        timeout_seconds=SWEEP_TIMEOUT,
        asynchronous=True,
        every_minute=True,
    ),
    Function(
        "operator_runner",
        Place.RUNNER,
        frozenset({Need.TASK_API, Need.OPERATORS, Need.DATA, Need.ARROW, Need.WRITE_ROWS}),
        timeout_seconds=LONGEST_TIMEOUT,
        memory_mb=2048,
        asynchronous=True,
    ),
    Function(
        "worker",
        Place.WORKER,
        frozenset(
            {
                *(Need.INTERNAL_API, Need.TASK_API, Need.HEAR_WAKE_UPS, Need.SEND_WAKE_UPS),
                *(Need.WORKER_TOKENS, Need.USER_SECRETS, Need.WRITE_LOGS),
                *(Need.OPERATORS, Need.CHILDREN, Need.UPSTREAMS),
                *(Need.DATA, Need.ARROW, Need.WRITE_ROWS),
            }
        ),
        timeout_seconds=LONGEST_TIMEOUT,
        memory_mb=2048,
    ),
)
