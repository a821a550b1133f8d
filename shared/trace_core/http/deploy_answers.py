"""What the user API answers about plans, deploys, rollbacks and backfills."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pydantic import Field

from trace_core.deploy import plan_model
from trace_core.http.wire import Page, Time, Wire

DeployStatus = Literal[
    "Building", "Paused", "Checking", "ChecksFailed", "Draining", "Done", "Canceled"
]


class Planned(Wire):
    """What an edit of a DAG file means; nothing has been changed."""

    digest: str = Field(description="Of what would be done: two plans that do the same have one.")
    is_empty: bool = Field(description="There is nothing to do.")
    rebuild_set: list[str] = Field(description="Jobs whose data is built anew.")
    dag: str
    from_version: int | None = Field(description="The active version; null for a new DAG.")
    from_digest: str | None
    to_digest: str
    state_token: str = Field(
        description="The state that the plan was made on: `expected_state` of a deploy."
    )
    edits: tuple[plan_model.Edit, ...] = Field(description="Of the DAG itself.")
    jobs: tuple[plan_model.JobPlan, ...]
    sources: tuple[plan_model.SourcePlan, ...] = Field(description="Sources that begin anew.")
    datasets: tuple[plan_model.DatasetPlan, ...] = Field(description="Published ones that change.")
    total: plan_model.Total | None = Field(description="Estimate of the whole rebuild.")
    cut_over: plan_model.CutOver
    warnings: tuple[str, ...]

    def plan(self) -> plan_model.Plan:
        """As the value that it was made from."""
        names = [each.name for each in dataclasses.fields(plan_model.Plan)]
        return plan_model.Plan(**{name: getattr(self, name) for name in names})


class Deployed(Wire):
    dag: str
    version: int
    created: bool = Field(description="False: this very definition was deployed before.")
    jobs: list[str]
    webhooks: list[str] = Field(description="Jobs that others may call, once they have a secret.")
    deploy: int | None = Field(description="Counts the deploys and rollbacks of this DAG.")
    status: DeployStatus = Field(
        description="`Building`: the version becomes active once its data is built."
    )
    builds: list[str] = Field(description="Jobs whose data is built first.")


class Deploy(Wire):
    number: int = Field(description="Counts the deploys and rollbacks of this DAG.")
    kind: Literal["deploy", "rollback"]
    from_version: int | None = Field(description="The version before; null for the first one.")
    to_version: int
    status: DeployStatus
    created_by: str | None
    created_at: Time
    built_at: Time | None
    cut_over_at: Time | None
    ended_at: Time | None
    error: str | None = Field(description="Why it does not go on.")


class DeployPage(Page):
    deploys: list[Deploy]


class JobProgress(Wire):
    """How far one job of a build is."""

    job: str
    standing: Literal["active", "held", "candidate", "retired"]
    waiting: int
    running: int
    done: int = Field(description="Scopes that it has announced.")
    expected: int | None = Field(
        description="Scopes of the current version of its outputs; null when unknown."
    )
    failed: int


class Progress(Wire):
    jobs: list[JobProgress]
    share: float | None = Field(description="From 0 to 1, of what is known; null when nothing is.")
    elapsed_seconds: float
    left_seconds: float | None = Field(description="By the rate so far; null when there is none.")
    held_tasks: int = Field(description="Live tasks that wait until the build has ended.")


class Verdict(Wire):
    """What a check said about the candidate."""

    dataset: str
    holds: bool
    message: str
    examples: list[Any] = Field(description="Of what did not hold.")


class MovedOutput(Wire):
    job: str
    output_index: int
    dataset: str | None = Field(description="Its published name.")


class DeployDetail(Deploy):
    """One deploy, with its progress while it is built."""

    dag: str
    progress: Progress | None = Field(description="Null once it is over.")
    checks: list[Verdict]
    moved: list[MovedOutput] = Field(description="Outputs whose current version it exchanged.")
    behind: dict[str, int] = Field(description="Job: events that it still has to catch up with.")
    canceled: dict[str, int] = Field(
        description="Replaced job: tasks that are still to be canceled."
    )


class DeployState(Wire):
    dag: str
    deploy: int
    status: DeployStatus


class RollbackPreview(Wire):
    """What a rollback would do now."""

    dag: str
    from_version: int | None
    to_version: int
    last_active_at: Time
    under_way: int | None = Field(
        description="Number of a deploy that has to end or be canceled first."
    )
    restored: dict[str, int] = Field(
        description="Job that comes back: events that it missed, about."
    )
    ended: dict[str, int] = Field(description="Job that ends: its open tasks, about.")


class RolledBack(Wire):
    """What a rollback did."""

    dag: str
    deploy: int = Field(description="Its number among the deploys of the DAG.")
    from_version: int | None
    version: int = Field(description="The version that is active again.")
    restored: list[MovedOutput] = Field(description="Outputs whose former data is current again.")
    behind: dict[str, int] = Field(description="Job: events that it has to catch up with.")
    canceled: dict[str, int] = Field(description="Job that is gone: tasks that end with it.")
    deliveries: list[dict[str, Any]] = Field(
        description="What the version that is gone had sent; empty, for nothing is delivered yet."
    )


class BackfillBegun(Wire):
    dag: str
    job: str
    number: int = Field(description="Counts the backfills of this DAG.")
    scopes: int = Field(description="How many are computed again.")


class Backfill(Wire):
    number: int
    job: str
    start: int
    end: int
    status: Literal["Running", "Paused", "Done", "Canceled"]
    reason: str
    window: int = Field(description="Tasks that are open at once, at most.")
    scopes: int
    made: int = Field(description="Tasks so far.")
    completed: int
    failed: int
    canceled: int
    created_by: str | None
    created_at: Time
    ended_at: Time | None


class BackfillPage(Page):
    backfills: list[Backfill]


class BackfillState(Wire):
    dag: str
    number: int
    status: Literal["Running", "Paused", "Canceled"]
    canceled: int = Field(description="Open tasks that end with it.")
