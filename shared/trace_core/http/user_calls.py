"""The wire formats of the user API."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trace_core.dag.model import Runtime
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.outbox.admin import OutboxStatus
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Queue, wake_queue
from trace_core.tasks.model import TaskStatus

LOGS_SHOWN = 10
"""The newest attempts or slices of a task; each log is bounded where it is written."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,127}$")]
Count = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
QUEUED = (Runtime.WORKER,)
"""The runtimes whose runners are woken by messages."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeployRequest(_Wire):
    text: Annotated[str, Field(min_length=1, max_length=limits.DAG_FILE_MAX)]
    filename: Annotated[str, Field(min_length=1, max_length=500)] = "dag.yaml"


class TriggerRequest(_Wire):
    request: Annotated[dict[str, Any], Field(max_length=100)] = {}


class TasksQuery(_Wire):
    dag: Name | None = None
    job: Name | None = None
    status: TaskStatus | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    before: UUID | None = None


class OutboxQuery(_Wire):
    status: OutboxStatus | None = None
    kind: Name | None = None
    target: Name | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    after: UUID | None = None


class OutboxReset(_Wire):
    status: OutboxStatus = OutboxStatus.FAILED
    kind: Name | None = None
    target: Name | None = None
    outbox_ids: Annotated[list[UUID], Field(min_length=1, max_length=500)] | None = None


class RedriveRequest(_Wire):
    limit: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1000


class QuotaRequest(_Wire):
    """What is not given is not limited."""

    max_running: Count | None = None
    reserved_for_live: Count = 0
    max_starts_hourly: Count | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> QuotaRequest:
        if self.max_running is None and self.max_starts_hourly is None:
            raise ValueError("give max_running, max_starts_hourly or both; or clear the quota")
        if self.reserved_for_live and self.reserved_for_live >= (self.max_running or 0):
            raise ValueError("reserved_for_live is a part of max_running, and less than it")
        return self


def queues_of(queue: Queue, org_id: OrgId) -> list[dict[str, Any]]:
    """The queues of an org's wake-ups, and how many messages wait, are in flight, are dead."""
    return [
        {"runtime": runtime, "queue": name, **asdict(queue.depth(name))}
        for runtime in QUEUED
        for name in [wake_queue(runtime, org_id)]
    ]


def queue_of(runtime: str, org_id: OrgId) -> str:
    """From the path: only what has a queue can be named."""
    if runtime not in QUEUED:
        raise NotFound(f"There is no queue for {runtime}; those of {', '.join(QUEUED)} exist.")
    return wake_queue(runtime, org_id)


def task_id(text: str) -> TaskId:
    """From the path: what is no id names nothing."""
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise NotFound from None


def logs_of(objects: ObjectStore, org_id: OrgId, task: TaskId) -> list[dict[str, Any]]:
    """The newest logs of a task, oldest of them first."""
    found = [_named(info.key) for info in objects.list(f"org/{org_id}/logs/{task}/")]
    newest = sorted(each for each in found if each is not None)[-LOGS_SHOWN:]
    return [
        {
            "attempt": attempt,
            "lease_sequence": sequence,
            "text": objects.read(key).decode("utf-8", "replace"),
        }
        for attempt, sequence, key in newest
    ]


def _named(key: str) -> tuple[int, int, str] | None:
    attempt, _, sequence = key.rsplit("/", 1)[-1].removesuffix(".log").partition("-")
    if attempt.isdecimal() and sequence.isdecimal():
        return int(attempt), int(sequence), key
    return None
