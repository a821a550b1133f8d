"""Where PySpark operators run: on EMR Serverless, or in a process with one warm session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from trace_core.kernel.errors import Invalid
from trace_core.ports.credential_issuer import check_prefixes

LOGGERS_THAT_QUOTE = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.util.Utils",
)
"""Spark's own, whose errors repeat the statement that failed and values of its rows. A log may have
neither; the failure that a task is told has what there is to know."""
_CLIENT_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RunState(StrEnum):
    """The words of EMR Serverless, in both profiles."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"

    @property
    def has_ended(self) -> bool:
        return self in (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True)
class RunRequest:
    client_token: str
    """The same token again is the same run: 1 to 64 letters, digits, `.`, `_` or `-`."""
    name: str
    payload_uri: str
    """Of the payload: the root of the objects, as tasks see it, and its key as it is."""
    read_prefixes: Sequence[str]
    """Keys that the run may read, each ending with a slash: its payload and its inputs."""
    write_prefixes: Sequence[str]
    """Keys that it may write: its outputs and its result."""
    timeout_seconds: int
    """From RUNNING on. A run that takes longer is ended, and is then CANCELLED, with a detail."""
    queue_seconds: int
    """How long it may wait to become RUNNING; then it is ended likewise."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    vcpu_hours: float = 0.0
    memory_gb_hours: float = 0.0
    storage_gb_hours: float = 0.0


@dataclass(frozen=True)
class RunStatus:
    run_id: str
    state: RunState
    detail: str = ""
    """Why it failed, as the service says it."""
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    """When it began to run: before that it waited and was prepared."""
    ended_at: datetime | None = None
    queued_seconds: float | None = None
    """Waiting for room, apart from starting up."""
    usage: Usage | None = None


class SparkRunner(Protocol):
    def room(self) -> int:
        """How many more runs it takes now.

        One that does not know what it holds answers how many it takes at once: then whoever
        starts runs keeps to a limit of its own.
        """
        ...

    def start(self, request: RunRequest) -> str:
        """The id of the run: of a new one, or of the one that this client token has begun.

        Raises `Unavailable` when it may or may not have begun (the same token finds out), and
        `Rejected` or `Denied` when it never can.
        """
        ...

    def status(self, run_id: str) -> RunStatus:
        """Raises `NotFound` for a run that is not known any more."""
        ...

    def cancel(self, run_id: str) -> None:
        """Ask it to end; ending what has ended is no error."""
        ...


def check_request(request: RunRequest) -> None:
    """Raises `Invalid` for what no runner takes."""
    if not _CLIENT_TOKEN.fullmatch(request.client_token):
        raise Invalid("A client token has 1 to 64 letters, digits, `.`, `_` or `-`.")
    if request.timeout_seconds < 1 or request.queue_seconds < 1:
        raise Invalid("A run has at least a second to wait and a second to run.")
    check_prefixes((*request.read_prefixes, *request.write_prefixes))
