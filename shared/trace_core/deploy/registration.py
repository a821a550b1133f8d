"""Writes one version of one DAG into the state database, inside the deploy's transaction."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.catalog import Catalog
from trace_core.dag.filters import to_text
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.model import Dag, DatasetName, Job, JobInput, SourceKind
from trace_core.dag.model import Priority as PriorityName
from trace_core.database.state import Transaction, as_json
from trace_core.deploy.statements import SQL
from trace_core.identity.webhook_sources import add_source
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import DagId, DagVersionId, Ids, OrgId, UserId
from trace_core.tasks.model import NEVER, Priority
from trace_core.tasks.schedule import next_tick


class Registration:
    """Writes one version of one DAG inside the deploy's transaction."""

    def __init__(
        self,
        tx: Transaction,
        ids: Ids,
        catalog: Catalog,
        *,
        org_id: OrgId,
        dag_id: DagId,
        dag: Dag,
        now: datetime,
    ) -> None:
        self._ids = ids
        self._catalog = catalog
        self._tx = tx
        self._org: dict[str, Any] = {"org_id": org_id, "dag_id": dag_id, "now": now}
        self._dag = dag
        self._now = now
        self._jobs: dict[str, UUID] = {job.name: self._ids.uuid() for job in dag.jobs}
        self._pools: dict[str, tuple[UUID, UUID]] = {}
        self._outputs: dict[tuple[str, int], UUID] = {}

    def write(self, text: str, digest: str, user_id: UserId | None) -> None:
        version_id = DagVersionId(self._ids.uuid())
        version = {"dag_version_id": version_id, **self._org}
        self._tx.run(
            SQL["add_dag_version"],
            version | {"number": 1, "content_sha256": digest, "source": text, "user_id": user_id},
        )
        # In a statement of its own: the next one then sees the quota that was set meanwhile.
        self._tx.one(SQL["share_org"], self._org)
        quota = self._tx.one(SQL["org_quota"], self._org)
        self._add_pools()
        fingerprints = job_fingerprints(self._dag, self._catalog)
        for job in self._dag.jobs:
            self._add_job(job, fingerprints[job.name], quota.capacity_id if quota else None)
            self._tx.run(SQL["add_version_job"], version | {"job_id": self._jobs[job.name]})
        self._add_publications()
        for job in self._dag.jobs:
            for index, each in enumerate(job.inputs):
                self._add_input(job, index, each)
        self._tx.run(SQL["activate"], version)
        self._tx.run(SQL["refresh_standing"], self._org)
        self._tx.run(SQL["refresh_routes"], self._org)
        for job in self._dag.jobs:
            if job.source is not None:
                self._add_source_task(job)

    def _add_pools(self) -> None:
        backfill_pools = {
            job.worker_pool for job in self._dag.jobs if job.priority is PriorityName.BACKFILL
        }
        live_pools = {
            job.worker_pool for job in self._dag.jobs if job.priority is PriorityName.LIVE
        }
        for pool in self._dag.worker_pools:
            pool_id, capacity_id = self._ids.uuid(), self._ids.uuid()
            self._pools[pool.name] = (pool_id, capacity_id)
            # A pool that live and backfill jobs share keeps one slot for live work.
            shared = pool.name in backfill_pools & live_pools
            self._tx.run(
                SQL["add_capacity"],
                {
                    **self._org,
                    "capacity_id": capacity_id,
                    "kind": "pool",
                    "name": pool.name,
                    "max_running": len(pool.slots),
                    "reserved_for_live": 1 if shared else 0,
                },
            )
            self._tx.run(
                SQL["add_pool"],
                {**self._org, "pool_id": pool_id, "name": pool.name, "capacity_id": capacity_id},
            )
            for position, slot in enumerate(pool.slots):
                self._tx.run(
                    SQL["add_slot"],
                    {
                        "slot_id": self._ids.uuid(),
                        "pool_id": pool_id,
                        "position": position,
                        "name": slot.name,
                        "env": as_json(dict(slot.env)),
                        "secrets": as_json(dict(slot.secrets)),
                    },
                )

    def _add_job(self, job: Job, fingerprint: str, quota: UUID | None) -> None:
        capacities = [quota] if quota else []
        pool_id = None
        if job.worker_pool is not None:
            pool_id, pool_capacity = self._pools[job.worker_pool]
            capacities.append(pool_capacity)
        if job.max_concurrency is not None:
            capacity_id = self._ids.uuid()
            self._tx.run(
                SQL["add_capacity"],
                {
                    **self._org,
                    "capacity_id": capacity_id,
                    "kind": "job",
                    "name": job.name,
                    "max_running": job.max_concurrency,
                    "reserved_for_live": 0,
                },
            )
            capacities.append(capacity_id)
        self._tx.run(
            SQL["add_job"],
            {
                **self._org,
                "job_id": self._jobs[job.name],
                "name": job.name,
                "fingerprint": fingerprint,
                "activation": job.activation.value,
                "runtime": job.runtime.value,
                "operator": job.operator or "udf",
                "definition": as_json(_definition(job)),
                "source_kind": job.source.kind.value if job.source else None,
                "schedule": job.source.schedule if job.source else None,
                "outputs": job.outputs,
                "priority": _priority(job).value,
                "max_attempts": job.max_attempts,
                "timeout_seconds": int(job.timeout.total_seconds()),
                "heartbeat_seconds": int(job.heartbeat.total_seconds()),
                "pool_id": pool_id,
                "capacity_ids": capacities,
            },
        )
        for index in range(job.outputs):
            dataset = self._outputs[job.name, index] = self._ids.uuid()
            self._tx.run(
                SQL["add_output"],
                {
                    **self._org,
                    "dataset_uuid": dataset,
                    "dataset_version": self._ids.uuid(),
                    "job_id": self._jobs[job.name],
                    "job_name": job.name,
                    "output_index": index,
                },
            )

    def _add_publications(self) -> None:
        for publication in self._dag.publications:
            params = {**self._org, "dataset_name": publication.name}
            taken = self._tx.one(SQL["publish"], params | {"description": publication.description})
            if taken is None:
                raise Invalid(
                    f"The dataset name {publication.name} belongs to another DAG.",
                    field=f"publish.{publication.name}",
                )
            for part, output in enumerate(publication.parts):
                dataset = self._outputs[output.job, output.output]
                self._tx.run(SQL["publish_part"], params | {"part": part, "dataset_uuid": dataset})

    def _add_input(self, job: Job, index: int, each: JobInput) -> None:
        for dataset in self._datasets(job, index, each):
            params = {
                "job_id": self._jobs[job.name],
                "input_index": index,
                "dataset_uuid": dataset,
                "alias": each.alias,
                "filter": as_json(to_text(each.where)) if each.where is not None else None,
                "triggers": each.trigger,
            }
            self._tx.one(SQL["lock_dataset"], params)
            self._tx.run(SQL["add_edge"], params)

    def _datasets(self, job: Job, index: int, each: JobInput) -> list[UUID]:
        if not isinstance(each.origin, DatasetName):
            return [self._outputs[each.origin.job, each.origin.output]]
        name = each.origin.dataset
        rows = self._tx.all(SQL["published_parts"], {**self._org, "dataset_name": name})
        if not rows:
            raise Invalid(
                f"No DAG of this org publishes a dataset {name}; deploy the one that does first.",
                field=f"jobs.{job.name}.inputs[{index}].from.dataset",
            )
        return [row.dataset_uuid for row in rows]

    def _add_source_task(self, job: Job) -> None:
        assert job.source is not None  # noqa: S101  the caller asked
        params = {
            **self._org,
            "task_id": self._ids.uuid(),
            "job_id": self._jobs[job.name],
            "priority": _priority(job).value,
            "runtime": job.runtime.value,
            "outbox_id": self._ids.uuid(),
        }
        self._tx.run(SQL["add_source_task"], params)
        if job.source.kind is SourceKind.WEBHOOK:
            add_source(self._tx, self._ids, job_name=job.name, **self._org)
        if job.source.kind is SourceKind.ALWAYS_ON:
            self._tx.run(SQL["queue_source"], params)
            return
        due_at = next_tick(job.source.schedule, self._now) if job.source.schedule else NEVER
        self._tx.run(SQL["delay_source"], params | {"due_at": due_at})


def _priority(job: Job) -> Priority:
    return Priority.BACKFILL if job.priority is PriorityName.BACKFILL else Priority.LIVE


def _definition(job: Job) -> dict[str, Any]:
    return {
        "config": dict(job.config),
        "execution_strategy": job.execution_strategy,
        "update_strategy": job.update_strategy,
        "unique_key": list(job.unique_key),
        "udf": dataclasses.asdict(job.udf) if job.udf else None,
    }
