"""What a version of a DAG says beside its data: kept with the version, true while it is active.

A job with an unchanged fingerprint is the same job in both versions. How it runs, which pools there
are, what is published and checked may differ, and changes with the version.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.model import Column, Dag, Job, Publication, Storage, WorkerPool, WriteMode
from trace_core.dag.model import Priority as PriorityName
from trace_core.tasks.model import Priority


def version_settings(dag: Dag, catalog: Catalog) -> dict[str, Any]:
    return {
        "jobs": [
            {**job_settings(job), "code_version": _code_version(job, catalog)} for job in dag.jobs
        ],
        "pools": [_pool(dag, pool) for pool in dag.worker_pools],
        "publications": [_publication(each) for each in dag.publications],
        "checks": [
            {"dataset": check.dataset, "kind": check.kind.value, "columns": list(check.columns)}
            for check in dag.checks
        ],
    }


def job_settings(job: Job) -> dict[str, Any]:
    """Of one job: all that may change without changing what it writes."""
    return {
        "name": job.name,
        "runtime": job.runtime.value,
        "schedule": job.source.schedule if job.source else None,
        "priority": job_priority(job).value,
        "max_attempts": job.max_attempts,
        "timeout_seconds": int(job.timeout.total_seconds()),
        "heartbeat_seconds": int(job.heartbeat.total_seconds()),
        "worker_pool": job.worker_pool,
        "max_concurrency": job.max_concurrency,
        "definition": {
            "config": dict(job.config),
            "execution_strategy": job.execution_strategy,
            "update_strategy": job.update_strategy,
            "unique_key": list(job.unique_key),
            "udf": dataclasses.asdict(job.udf) if job.udf else None,
        },
    }


def _code_version(job: Job, catalog: Catalog) -> str | None:
    """Of its operator, so that a plan can say that only the code is newer."""
    spec = catalog.get(job.operator) if job.operator else None
    return spec.code_version if spec else None


def job_priority(job: Job) -> Priority:
    return Priority.BACKFILL if job.priority is PriorityName.BACKFILL else Priority.LIVE


def backend_of(dag: Dag, job: Job, output: int, catalog: Catalog) -> str:
    """Where the rows of one output go: as a publication of it alone says, or its operator."""
    for each in dag.publications:
        own = [part for part in each.parts if (part.job, part.output) == (job.name, output)]
        if own and len(each.parts) == 1 and each.storage and each.write_mode is WriteMode.DIRECT:
            return each.storage.value
    spec = catalog.get(job.operator) if job.operator else None
    storage: Storage | None = spec.storage if spec else None
    return storage.value if storage else "control"


def columns_of(dag: Dag, job: Job, output: int, catalog: Catalog) -> tuple[Column, ...] | None:
    """The columns of one output, as a publication of it alone or its operator declares them."""
    for each in dag.publications:
        parts = [(part.job, part.output) for part in each.parts]
        if parts == [(job.name, output)] and each.schema:
            return each.schema.columns
    spec = catalog.get(job.operator) if job.operator else None
    return spec.columns[output] if spec and output < len(spec.columns) else None


def _pool(dag: Dag, pool: WorkerPool) -> dict[str, Any]:
    priorities = {job.priority for job in dag.jobs if job.worker_pool == pool.name}
    return {
        "name": pool.name,
        # A pool that live and backfill jobs share keeps one slot for live work.
        "reserved_for_live": 1 if len(priorities) > 1 else 0,
        "slots": [
            {"name": slot.name, "env": dict(slot.env), "secrets": dict(slot.secrets)}
            for slot in pool.slots
        ],
    }


def _publication(each: Publication) -> dict[str, Any]:
    return {
        "name": each.name,
        "description": each.description,
        "freshness_seconds": each.freshness.total_seconds() if each.freshness else None,
        "pii": list(each.pii),
        "storage": each.storage.value if each.storage else None,
        "write_mode": each.write_mode.value,
        "schema": dataclasses.asdict(each.schema) if each.schema else None,
        "parts": [{"job": part.job, "output": part.output} for part in each.parts],
    }
