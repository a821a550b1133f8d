"""What the user API answers about datasets: what they are, who reads them, what is stored."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_core.dag.model import UpdateStrategy
from trace_core.http.wire import Page, Time, Wire
from trace_core.http.work_answers import Scope
from trace_core.registry.standing import Kept, Standing
from trace_core.storage.model import Backend
from trace_core.tasks.model import TaskStatus


class Freshness(Wire):
    announced_at: Time | None = Field(description="The newest announcement of any part.")
    age_seconds: int | None
    allowed_seconds: int | None = Field(description="As the DAG says under `freshness`.")
    fresh: bool | None = Field(description="Null: the DAG does not say how old it may be.")


class Dataset(Wire):
    name: str
    description: str
    dag: str
    owner: str | None = Field(description="Whom to ask; the DAG's creator unless set.")
    read_roles: list[str]
    backends: list[Backend]
    parts: int
    freshness: Freshness
    created_at: Time
    hidden_at: Time | None = Field(
        description="Since when its DAG publishes it no more; only administrators see it then."
    )


class DatasetPage(Page):
    datasets: list[Dataset]


class DatasetColumn(Wire):
    name: str
    type: str


class DatasetPin(Wire):
    """A part as it was after one commit: the same rows whenever it is read."""

    part: int
    dataset_uuid: UUID
    dataset_version: UUID
    number: int
    swap: int


class DatasetPart(DatasetPin):
    job: str
    output_index: int
    backend: Backend
    location: str | None = Field(
        description="Prefix of its objects, or schema and table; nothing for announcements alone."
    )
    update_strategy: UpdateStrategy
    unique_key: list[str]
    columns: list[DatasetColumn] | None
    dag_version: int | None = Field(description="The version of the DAG that began it.")
    current_since: Time | None
    announced_at: Time | None
    commits: int
    row_count: int
    bytes: int


class Neighbour(Wire):
    """A job beside the dataset, with one of its outputs."""

    dag: str
    job: str
    output_index: int | None
    dataset: str | None = Field(description="Its published name, as far as you may read it.")


class Snapshot(Wire):
    snapshot: str
    description: str
    created_at: Time
    created_by: str | None
    pins: list[DatasetPin]


class SnapshotPage(Page):
    snapshots: list[Snapshot]


class SnapshotMade(Wire):
    dataset: str
    snapshot: str
    pins: list[DatasetPin]


class SnapshotRemoved(Wire):
    snapshot: str
    removed: bool


class DatasetDetail(Wire):
    """One dataset: what it is, where it lies, what it is made from and who reads it."""

    name: str
    description: str
    dag: str
    owner: str | None
    read_roles: list[str]
    pii: list[str]
    storage: str | None
    write_mode: str
    freshness: Freshness
    created_at: Time
    hidden_at: Time | None
    parts: list[DatasetPart]
    upstream: list[Neighbour] = Field(description="What its jobs read.")
    downstream: list[Neighbour] = Field(description="The jobs that read it.")
    snapshots: list[Snapshot] = Field(description="The first 20; there is a list of all.")


class DatasetVersion(Wire):
    part: int
    job: str
    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    standing: Standing
    backend: Backend
    dag_version: int | None
    created_at: Time
    current_since: Time | None = Field(description="When it became current, the last time.")
    number: int = Field(description="The last commit that can be read.")
    commits: int
    row_count: int
    bytes: int
    superseded_bytes: int = Field(description="Of commits that others took the place of.")


class DatasetVersionPage(Page):
    versions: list[DatasetVersion]


class Partition(Wire):
    """A live commit; of a dataset without rows, an announcement."""

    part: int
    scope: Scope
    number: int
    row_count: int | None
    bytes: int | None
    at: Time
    task_id: UUID


class PartitionPage(Page):
    partitions: list[Partition]


class ReadRoles(Wire):
    dataset: str
    read_roles: list[str]


class Owner(Wire):
    dataset: str
    owner: str | None


class StoredVersion(Wire):
    dataset: str | None = Field(description="Null: an output that has no name.")
    dag: str
    job: str
    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    standing: Standing
    backend: Backend
    dag_version: int | None
    created_at: Time
    commits: int
    row_count: int
    bytes: int
    superseded_bytes: int
    objects: int
    in_snapshot: bool = Field(description="A snapshot names it, and keeps it from a purge.")


class StoragePage(Page):
    versions: list[StoredVersion]


class KeptReason(Wire):
    reason: Kept
    message: str


class PurgeVersion(Wire):
    dataset_uuid: UUID
    dataset_version: UUID
    standing: Standing
    backend: Backend
    commits: int
    row_count: int
    bytes: int = Field(description="That a purge frees, superseded commits included.")
    objects: int
    kept: list[KeptReason] = Field(description="Why it may not go; empty: it may.")
    marked_at: Time | None
    deleted_after: Time | None = Field(description="Until then readers of older pins may go on.")
    purged_at: Time | None


class PurgePreview(Wire):
    dataset: str
    versions: list[PurgeVersion]
    freed_bytes: int = Field(description="Of the versions that may go.")


class PurgeMarked(Wire):
    dataset: str
    versions: list[PurgeVersion]


class Head(Wire):
    """The first rows at a pin; the same again whenever the same pins are asked."""

    dataset: str
    pins: list[DatasetPin]
    columns: list[DatasetColumn]
    rows: list[list[str | int | float | bool | None]]
    cut: bool = Field(description="There are more rows than these, or not all commits were read.")


class ObjectFinding(Wire):
    part: int
    scope: Scope
    number: int
    problem: Literal["altered", "missing", "extra"]
    key: str


class Verification(Page):
    """What was found of some partitions; go on with `next` until it is null."""

    dataset: str
    pins: list[DatasetPin]
    unverifiable: list[int] = Field(
        description="Parts without objects: their rows lie in Postgres, or there are none."
    )
    partitions: int = Field(description="Checked in this answer.")
    partitions_in_all: int | None = Field(description="Counted with the first answer only.")
    objects: int
    bytes: int
    findings: list[ObjectFinding]


class InvalidationTask(Wire):
    task_id: UUID
    dag: str
    job: str
    status: TaskStatus


class Invalidation(Wire):
    event_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    dag: str
    job: str
    output_index: int
    scope: Scope
    number: int
    reason: str
    source: Literal["replace", "cutover", "rollback", "person"]
    declared_by: str | None
    task_id: UUID | None = Field(description="The task whose rewrite it was.")
    deploy_id: UUID | None
    created_at: Time
    tasks: list[InvalidationTask] = Field(description="What was made of it.")
    processed: bool = Field(description="All of these tasks have completed.")


class InvalidationPage(Page):
    invalidations: list[Invalidation]


class InvalidPart(Wire):
    event_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    number: int


class Invalidated(Wire):
    dataset: str
    parts: list[InvalidPart]
    tasks_made: int
    repeated: bool = Field(description="The same request had been made before.")


class LineageInput(Wire):
    """What a task read. Beyond what you may read, only its name and its pin are shown."""

    alias: str | None
    dag: str
    job: str
    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    number: int
    swap: int
    scope: Scope | None = Field(description="What made the task; null for one it only read.")
    commits: list[LineageCommit]
    producer: LineageTask | None = Field(description="Who announced it, if it has no rows.")


class LineageTask(Wire):
    task_id: UUID
    attempt: int | None
    dag: str
    job: str
    operator: str
    fingerprint: str = Field(description="Of its code, configuration and inputs.")
    config: dict[str, Any]
    invalidation: str | None = Field(description="Why it ran, if something was invalid.")
    inputs: list[LineageInput]


class LineageCommit(Wire):
    dataset_version: UUID
    number: int
    scope: Scope
    replaced_at: int | None
    row_count: int | None
    bytes: int | None
    registered_at: Time
    task: LineageTask | None = Field(description="Null: its history is gone.")


class Lineage(Wire):
    """The commits that show a scope, each with its task, and so upstream."""

    dataset: str
    commits: list[LineageCommit]
    truncated: bool = Field(description="There is more: ask for a smaller scope or less depth.")
