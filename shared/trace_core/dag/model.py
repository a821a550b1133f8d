"""A checked DAG: what runs, on what, in which order, and which names its outputs get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from trace_core.dag.filters import Predicate
from trace_core.kernel import limits


class Activation(StrEnum):
    SOURCE = "source"
    REACTIVE = "reactive"


class Runtime(StrEnum):
    DISPATCHER = "dispatcher"
    WORKER = "worker"
    LAMBDA = "lambda"
    EMR_SERVERLESS = "emr_serverless"

    @property
    def max_timeout(self) -> timedelta:
        """How long one attempt may take; a worker may be hosted by a Lambda."""
        if self is Runtime.EMR_SERVERLESS:
            return limits.PLATFORM_MAX_TIMEOUT
        return min(limits.LAMBDA_MAX_TIMEOUT, limits.PLATFORM_MAX_TIMEOUT)


class ExecutionStrategy(StrEnum):
    PER_UPDATE = "PerUpdate"
    PER_PARTITION = "PerPartition"


class UpdateStrategy(StrEnum):
    REPLACE = "replace"
    APPEND = "append"


class SourceKind(StrEnum):
    ALWAYS_ON = "always_on"
    CRON = "cron"
    MANUAL = "manual"
    WEBHOOK = "webhook"


class Priority(StrEnum):
    LIVE = "live"
    BACKFILL = "backfill"


class Storage(StrEnum):
    POSTGRES = "postgres"
    S3 = "s3"


class WriteMode(StrEnum):
    DIRECT = "direct"
    BUFFERED = "buffered"


class CheckKind(StrEnum):
    NO_GAPS = "no_gaps"
    UNIQUE = "unique"
    NOT_NULL = "not_null"


@dataclass(frozen=True, slots=True)
class JobOutput:
    """One output of a job of this DAG."""

    job: str
    output: int

    def __str__(self) -> str:
        return f"{self.job}.{self.output}"


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A published dataset, usually another DAG's."""

    dataset: str

    def __str__(self) -> str:
        return self.dataset


Origin = JobOutput | DatasetName


@dataclass(frozen=True, slots=True)
class JobInput:
    origin: Origin
    alias: str
    """The name under which operator code and SQL see this input."""
    where: Predicate | None
    trigger: bool
    """Its events make tasks; an input without it is read at its pin."""


@dataclass(frozen=True, slots=True)
class Source:
    kind: SourceKind
    schedule: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Udf:
    """Code that a user uploaded; it is never trusted."""

    bundle: str
    entrypoint: str


@dataclass(frozen=True, slots=True)
class Slot:
    """What one running task of a pool gets for itself."""

    name: str
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    """Environment variable -> name of a user secret."""


@dataclass(frozen=True, slots=True)
class WorkerPool:
    name: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    activation: Activation
    runtime: Runtime
    operator: str | None
    """Nothing when `udf` is set."""
    udf: Udf | None
    source: Source | None
    inputs: tuple[JobInput, ...]
    execution_strategy: ExecutionStrategy | None
    outputs: int
    update_strategy: UpdateStrategy
    unique_key: tuple[str, ...]
    config: Mapping[str, Any]
    """With the operator's defaults filled in."""
    worker_pool: str | None
    max_concurrency: int | None
    max_queued: int | None
    priority: Priority
    max_attempts: int
    timeout: timedelta
    heartbeat: timedelta
    reset_outputs: bool

    @property
    def token_lifetime(self) -> timedelta:
        return capability_token_lifetime(self.timeout)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    columns: tuple[Column, ...]
    unique: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """A name that users see; it starts nothing."""

    name: str
    parts: tuple[JobOutput, ...]
    description: str
    freshness: timedelta | None
    pii: tuple[str, ...]
    storage: Storage | None
    """Nothing: where the producing operator writes by itself."""
    write_mode: WriteMode
    schema: TableSchema | None


@dataclass(frozen=True, slots=True)
class Check:
    """Must hold on a candidate version before it becomes current."""

    dataset: str
    kind: CheckKind
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A job reads an output of another job of this DAG."""

    origin: JobOutput
    job: str
    input_index: int
    trigger: bool
    dataset: str | None = None
    """The published name through which the output is read, if it is."""


@dataclass(frozen=True)
class Dag:
    name: str
    description: str
    jobs: tuple[Job, ...]
    worker_pools: tuple[WorkerPool, ...]
    publications: tuple[Publication, ...]
    checks: tuple[Check, ...]
    _by_name: dict[str, Job] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {job.name: job for job in self.jobs})

    def job(self, name: str) -> Job:
        return self._by_name[name]

    def publication(self, name: str) -> Publication | None:
        return next((each for each in self.publications if each.name == name), None)

    def edges(self) -> Iterator[Edge]:
        """Every edge inside the DAG; a dataset of its own stands for each of its parts."""
        published = {publication.name: publication.parts for publication in self.publications}
        for job in self.jobs:
            for index, each in enumerate(job.inputs):
                if isinstance(each.origin, JobOutput):
                    yield Edge(each.origin, job.name, index, each.trigger)
                else:
                    name = each.origin.dataset
                    for part in published.get(name, ()):
                        yield Edge(part, job.name, index, each.trigger, name)

    def external_datasets(self) -> Iterator[tuple[str, str, bool]]:
        """Dataset, reading job and whether it triggers, for what other DAGs or Trace publish."""
        published = {publication.name for publication in self.publications}
        for job in self.jobs:
            for each in job.inputs:
                if isinstance(each.origin, DatasetName) and each.origin.dataset not in published:
                    yield each.origin.dataset, job.name, each.trigger


def capability_token_lifetime(timeout: timedelta) -> timedelta:
    """A token outlives its attempt, up to a cap."""
    return min(timeout + limits.CAPABILITY_TOKEN_GRACE, limits.CAPABILITY_TOKEN_CAP)
