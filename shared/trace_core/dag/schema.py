"""The records of a valid file -> the model, with defaults filled in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from trace_core.dag.containers import Record
from trace_core.dag.job_rules import input_alias
from trace_core.dag.model import (
    Activation,
    Check,
    CheckKind,
    Column,
    Dag,
    DatasetName,
    ExecutionStrategy,
    Job,
    JobInput,
    JobOutput,
    Origin,
    Priority,
    Publication,
    Runtime,
    Slot,
    Source,
    SourceKind,
    Storage,
    TableSchema,
    Udf,
    UpdateStrategy,
    WorkerPool,
    WriteMode,
)
from trace_core.kernel import limits


def build(dag: Record) -> Dag:
    """Only for a file without problems: nothing is checked again."""
    defaults = dag.get("defaults")
    return Dag(
        name=dag.get("name"),
        description=dag.get("description") or "",
        jobs=tuple(_job(job, defaults) for _, job in dag.records("jobs")),
        worker_pools=tuple(
            WorkerPool(name, tuple(_slot(slot) for slot in slots))
            for name, slots in (dag.get("worker_pools") or {}).items()
        ),
        publications=tuple(
            _publication(name, publication)
            for name, publication in (dag.get("publish") or {}).items()
        ),
        checks=tuple(
            _check(name, check)
            for name, checks in (dag.get("checks") or {}).items()
            for check in checks
        ),
    )


def _slot(slot: Record) -> Slot:
    return Slot(slot.get("name"), slot.get("env") or {}, slot.get("secrets") or {})


def _job(job: Record, defaults: Record | None) -> Job:
    def setting(name: str, otherwise: Any) -> Any:
        own = job.get(name)
        if own is None and defaults:
            own = defaults.get(name)
        return otherwise if own is None else own

    strategy = job.get("execution_strategy")
    return Job(
        name=job.get("name"),
        activation=Activation(job.get("activation")),
        runtime=Runtime(job.get("runtime")),
        operator=job.get("operator"),
        udf=_udf(job.get("udf")),
        source=_source(job.get("source")),
        inputs=_inputs(job),
        execution_strategy=ExecutionStrategy(strategy) if strategy else None,
        outputs=job.get("outputs"),
        update_strategy=UpdateStrategy(job.get("update_strategy") or "replace"),
        unique_key=tuple(job.get("unique_key") or ()),
        config=job.get("config") or {},
        worker_pool=job.get("worker_pool"),
        max_concurrency=_inside(job.get("scaling"), "max_concurrency"),
        max_queued=_inside(job.get("backpressure"), "max_queued"),
        priority=Priority(setting("priority", Priority.LIVE)),
        max_attempts=setting("max_attempts", limits.TASK_MAX_ATTEMPTS),
        timeout=timedelta(seconds=setting("timeout_seconds", limits.TASK_TIMEOUT.total_seconds())),
        heartbeat=timedelta(
            seconds=setting("heartbeat_seconds", limits.HEARTBEAT_INTERVAL.total_seconds())
        ),
        reset_outputs=bool(_inside(job.get("bootstrap"), "reset_outputs")),
    )


def _inside(record: Record | None, key: str) -> Any:
    return record.get(key) if record else None


def _udf(udf: Record | None) -> Udf | None:
    return Udf(udf.get("bundle"), udf.get("entrypoint")) if udf else None


def _source(source: Record | None) -> Source | None:
    if source is None:
        return None
    return Source(SourceKind(source.get("kind")), source.get("schedule"), source.get("path"))


def _inputs(job: Record) -> tuple[JobInput, ...]:
    inputs = [each for _, each in job.records("inputs")]
    chosen = any(each.get("trigger") for each in inputs)
    return tuple(
        JobInput(
            origin=_origin(each.get("from")),
            alias=input_alias(each) or "",
            where=each.get("where"),
            trigger=bool(each.get("trigger")) if chosen else index == 0,
        )
        for index, each in enumerate(inputs)
    )


def _origin(origin: Record) -> Origin:
    if origin.has("dataset"):
        return DatasetName(origin.get("dataset"))
    return JobOutput(origin.get("job"), origin.get("output"))


def _publication(name: str, publication: Record) -> Publication:
    storage = publication.get("storage")
    write_mode = WriteMode(publication.get("write_mode") or WriteMode.DIRECT)
    if write_mode is WriteMode.BUFFERED:
        storage = Storage.POSTGRES
    return Publication(
        name=name,
        parts=tuple(
            JobOutput(part.get("job"), part.get("output"))
            for _, part in publication.records("from")
        ),
        description=publication.get("description") or "",
        freshness=publication.get("freshness"),
        pii=tuple(publication.get("pii") or ()),
        storage=Storage(storage) if storage else None,
        write_mode=write_mode,
        schema=_table(publication.get("schema")),
    )


def _table(schema: Record | None) -> TableSchema | None:
    if schema is None:
        return None
    return TableSchema(
        columns=tuple(Column(name, kind) for name, kind in schema.get("columns").items()),
        unique=tuple(schema.get("unique") or ()),
        indexes=tuple(tuple(index) for index in schema.get("indexes") or ()),
    )


def _check(dataset: str, check: Record) -> Check:
    kind = CheckKind(check.get("kind"))
    columns = (check.get("column"),) if kind is CheckKind.NO_GAPS else check.get("columns")
    return Check(dataset, kind, tuple(columns))
