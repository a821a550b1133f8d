"""What the user API is asked about DAGs, tasks, events and what moves them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trace_core.http.pages import PageQuery
from trace_core.http.wire import Name, Wire
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.outbox.model import OutboxStatus
from trace_core.ports.object_store import ObjectStore
from trace_core.tasks.model import TaskStatus

LOGS_SHOWN = 10
"""The newest attempts or slices of a task; each log is bounded where it is written."""

Count = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]


Number = Annotated[int, Field(ge=1, le=999_999_999)]
Cursor = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]


class PlanRequest(Wire):
    text: Annotated[str, Field(min_length=1, max_length=limits.DAG_FILE_MAX)]
    filename: Annotated[str, Field(min_length=1, max_length=500)] = "dag.yaml"


class DeployRequest(PlanRequest):
    expected_state: Annotated[str, Field(pattern=r"^[a-z0-9]{1,64}$")] | None = Field(
        None, description="`state_token` of a plan: refused when the state has moved since."
    )
    concurrency: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = Field(
        None, description="Tasks of the build that run at once, at most."
    )


class RollbackRequest(Wire):
    version: Number | None = Field(None, description="Default: the one that was active before.")


class RollbackQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Number | None = Field(None, description="Default: the one that was active before.")


class BackfillRequest(Wire):
    start: Cursor
    end: Cursor = Field(description="It belongs to the range, as the start does.")
    reason: Annotated[str, Field(max_length=500)] = ""
    window: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        limits.BACKFILL_WINDOW, description="Tasks that are open at once, at most."
    )


class TriggerRequest(Wire):
    request: Annotated[dict[str, Any], Field(max_length=100)] = Field(
        default_factory=dict, examples=[{"start": 1000, "end": 1999}]
    )


class TasksQuery(PageQuery):
    dag: Name | None = None
    job: Name | None = None
    status: TaskStatus | None = None


class EventsQuery(PageQuery):
    dag: Name | None = None
    job: Name | None = None
    task: UUID | None = Field(None, description="The task that announced it.")
    scope: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.=:+-]{1,200}$")] | None = Field(
        None, description="A cursor or a partition key.", examples=["1000-1999"]
    )


class OutboxQuery(PageQuery):
    status: OutboxStatus | None = None
    kind: Name | None = None
    target: Name | None = None


class OutboxReset(Wire):
    status: OutboxStatus = OutboxStatus.FAILED
    kind: Name | None = None
    target: Name | None = None
    outbox_ids: Annotated[list[UUID], Field(min_length=1, max_length=500)] | None = None


class RedriveRequest(Wire):
    limit: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1000


class SlotsQuery(Wire):
    dag: Name | None = None


class QuotaRequest(Wire):
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


def task_id(text: str) -> TaskId:
    """From the path: what is no id names nothing."""
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise NotFound from None


def version_number(text: str) -> int:
    """From the path: what is no number names nothing."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise NotFound
    return int(text)


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
