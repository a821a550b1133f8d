"""The wire formats of the user API."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.ports.object_store import ObjectStore
from trace_core.tasks.model import TaskStatus

LOGS_SHOWN = 10
"""The newest attempts or slices of a task; each log is bounded where it is written."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,127}$")]


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
