"""Writes one version of a DAG into the state database: what is new of it, and nothing active yet.

A job that some version had before, with the same fingerprint, is that very job: its datasets,
edges, tasks and state are taken up, whichever version made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from trace_core.dag.announced import announced_by_trigger
from trace_core.dag.catalog import Catalog
from trace_core.dag.filters import to_text
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.model import (
    Column,
    Dag,
    DatasetName,
    Job,
    JobInput,
    SourceKind,
    Storage,
    UpdateStrategy,
)
from trace_core.database.state import Row, Transaction, as_json
from trace_core.deploy.statements import SQL
from trace_core.deploy.version_settings import (
    backend_of,
    columns_of,
    job_priority,
    job_settings,
    version_settings,
)
from trace_core.identity.webhook_sources import add_source
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import DagId, DagVersionId, Ids, OrgId, UserId
from trace_core.tasks.model import NEVER
from trace_core.tasks.schedule import next_tick


class MakeTable(Protocol):
    """Makes the table of a dataset version in the data database, unless it is there."""

    def __call__(
        self,
        dataset_uuid: UUID,
        dataset_version: UUID,
        columns: tuple[Column, ...],
        update_strategy: UpdateStrategy,
        unique_key: tuple[str, ...],
    ) -> None: ...


@dataclass(frozen=True)
class Registered:
    dag_version_id: DagVersionId
    number: int
    created: bool


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
        make_table: MakeTable | None = None,
    ) -> None:
        self._ids = ids
        self._catalog = catalog
        self._make_table = make_table
        self._tx = tx
        self._org: dict[str, Any] = {"org_id": org_id, "dag_id": dag_id, "now": now}
        self._dag = dag
        self._now = now
        self._jobs: dict[str, UUID] = {}
        self._new: set[str] = set()
        self._pools: dict[str, tuple[UUID, UUID]] = {}
        self._outputs: dict[tuple[str, int], UUID] = {}

    def write(self, text: str, digest: str, user_id: UserId | None) -> Registered:
        known = self._tx.one(SQL["version_of_content"], self._org | {"content_sha256": digest})
        if known is not None:
            return Registered(known.dag_version_id, known.number, created=False)
        version: dict[str, Any] = {"dag_version_id": self._ids.uuid(), **self._org}
        added = self._tx.one(
            SQL["add_dag_version"],
            version
            | {
                "content_sha256": digest,
                "source": text,
                "user_id": user_id,
                "settings": as_json(version_settings(self._dag, self._catalog)),
            },
        )
        assert added is not None  # noqa: S101  the statement always answers one row
        # In a statement of its own: the next one then sees the quota that was set meanwhile.
        self._tx.one(SQL["share_org"], self._org)
        quota = self._tx.one(SQL["org_quota"], self._org)
        self._ensure_pools()
        fingerprints = job_fingerprints(self._dag, self._catalog)
        for job in self._dag.jobs:
            self._ensure_job(job, fingerprints[job.name], quota.capacity_id if quota else None)
            self._tx.run(SQL["add_version_job"], version | {"job_id": self._jobs[job.name]})
        for job in self._dag.jobs:
            if job.name in self._new:
                for index, each in enumerate(job.inputs):
                    self._add_input(job, index, each)
                if job.source is not None:
                    self._add_source_task(job)
        return Registered(DagVersionId(version["dag_version_id"]), added.number, created=True)

    def _ensure_pools(self) -> None:
        """Those that are new; the others change when the version becomes active."""
        for pool in version_settings(self._dag, self._catalog)["pools"]:
            known = self._tx.one(SQL["pool_by_name"], self._org | {"name": pool["name"]})
            if known is not None:
                self._pools[pool["name"]] = (known.pool_id, known.capacity_id)
                continue
            pool_id, capacity_id = self._ids.uuid(), self._ids.uuid()
            self._pools[pool["name"]] = (pool_id, capacity_id)
            self._tx.run(
                SQL["add_capacity"],
                {
                    **self._org,
                    "capacity_id": capacity_id,
                    "kind": "pool",
                    "name": pool["name"],
                    "max_running": len(pool["slots"]),
                    "reserved_for_live": pool["reserved_for_live"],
                },
            )
            self._tx.run(
                SQL["add_pool"],
                {**self._org, "pool_id": pool_id, "name": pool["name"], "capacity_id": capacity_id},
            )
            self._tx.run(
                SQL["put_slots"],
                {
                    "pool_id": pool_id,
                    "slots": as_json(pool["slots"]),
                    "slot_ids": self._ids.many(len(pool["slots"])),
                },
            )

    def _ensure_job(self, job: Job, fingerprint: str, quota: UUID | None) -> None:
        identity = {**self._org, "name": job.name, "fingerprint": fingerprint}
        known = self._tx.one(SQL["job_of_fingerprint"], identity)
        if known is not None:
            self._jobs[job.name] = known.job_id
            for row in self._tx.all(SQL["outputs_of_registered"], {"job_id": known.job_id}):
                self._outputs[job.name, row.output_index] = row.dataset_uuid
            return
        self._new.add(job.name)
        job_id = self._jobs[job.name] = self._ids.uuid()
        settings = job_settings(job)
        self._tx.run(
            SQL["add_job"],
            {
                **identity,
                **settings,
                "job_id": job_id,
                "activation": job.activation.value,
                "operator": job.operator or "udf",
                "definition": as_json(settings["definition"]),
                "source_kind": job.source.kind.value if job.source else None,
                "outputs": job.outputs,
                "pool_id": self._pools[job.worker_pool][0] if job.worker_pool else None,
                "capacity_ids": self._capacities(job, quota),
            },
        )
        backends = [
            backend_of(self._dag, job, index, self._catalog) for index in range(job.outputs)
        ]
        _refuse_two_places(job, backends)
        for index, backend in enumerate(backends):
            columns = columns_of(self._dag, job, index, self._catalog)
            row = self._tx.one(
                SQL["add_output"],
                {
                    **self._org,
                    "dataset_uuid": self._ids.uuid(),
                    "dataset_version": self._ids.uuid(),
                    "job_id": job_id,
                    "job_name": job.name,
                    "output_index": index,
                    "backend": backend,
                    "update_strategy": job.update_strategy.value,
                    "unique_key": list(job.unique_key),
                    "columns": as_json([asdict(each) for each in columns]) if columns else None,
                },
            )
            assert row is not None  # noqa: S101  the statement always answers one row
            if backend == Storage.POSTGRES:
                self._make(job, index, row, columns)
            self._outputs[job.name, index] = row.dataset_uuid

    def _make(self, job: Job, index: int, row: Row, columns: tuple[Column, ...] | None) -> None:
        """Its table, before anybody may write there; one whose deploy fails is of no version."""
        if not columns:
            raise Invalid(
                f"Output {index} of job {job.name} is a table in Postgres, and nobody says which"
                " columns it has: publish it with a `schema`.",
                field=f"jobs.{job.name}.outputs",
            )
        if self._make_table is None:
            raise Invalid("This deployment has no data database for tables.", job=job.name)
        self._make_table(
            row.dataset_uuid, row.dataset_version, columns, job.update_strategy, job.unique_key
        )

    def _capacities(self, job: Job, quota: UUID | None) -> list[UUID]:
        found = [quota] if quota else []
        if job.worker_pool is not None:
            found.append(self._pools[job.worker_pool][1])
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
            found.append(capacity_id)
        return found

    def _add_input(self, job: Job, index: int, each: JobInput) -> None:
        announced = announced_by_trigger(self._dag, job, self._catalog)
        spoken_for = {self._outputs[each.job, each.output] for each in announced}
        for dataset in self._datasets(job, index, each):
            params = {
                "job_id": self._jobs[job.name],
                "input_index": index,
                "dataset_uuid": dataset,
                "alias": each.alias,
                "filter": as_json(to_text(each.where)) if each.where is not None else None,
                "triggers": each.trigger,
                "announced_by_trigger": dataset in spoken_for,
            }
            self._tx.one(SQL["lock_dataset"], params)
            self._tx.run(SQL["add_edge"], params)

    def _datasets(self, job: Job, index: int, each: JobInput) -> list[UUID]:
        if not isinstance(each.origin, DatasetName):
            return [self._outputs[each.origin.job, each.origin.output]]
        name = each.origin.dataset
        own = self._dag.publication(name)
        if own is not None:
            return [self._outputs[part.job, part.output] for part in own.parts]
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
            "priority": job_priority(job).value,
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


def _refuse_two_places(job: Job, backends: Sequence[str]) -> None:
    """Two commits cannot be made one: a crash between them would leave half a result."""
    if {Storage.POSTGRES.value, Storage.S3.value} <= set(backends):
        raise Invalid(
            f"Outputs of job {job.name} go to Postgres and to S3. The outputs of one job are kept"
            " in one place: publish them with the same `storage`, or make two jobs.",
            field=f"jobs.{job.name}.outputs",
        )
