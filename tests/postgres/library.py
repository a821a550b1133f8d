"""Published datasets with several kinds of members, behind the real API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa

from tests.postgres.served import Person, Served
from trace_core.dag.model import Column
from trace_core.database.state import as_json
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.registry.purge import version_prefix
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity
from trace_core.storage.objects import write_objects
from trace_core.storage.rows import arrow_schema

SHOP = """
version: 1
name: shop
jobs:
  - {name: orders, activation: source, runtime: worker, operator: emit_cursors, outputs: 1,
     source: {kind: always_on}, update_strategy: replace}
  - {name: archive, activation: reactive, runtime: worker, operator: pass_on, outputs: 1,
     execution_strategy: PerUpdate, inputs: [{from: {job: orders, output: 0}}],
     update_strategy: replace}
  - {name: totals, activation: reactive, runtime: worker, operator: pass_on, outputs: 1,
     execution_strategy: PerUpdate, inputs: [{from: {job: orders, output: 0}}],
     update_strategy: replace}
publish:
  orders:
    from: [{job: orders, output: 0}, {job: archive, output: 0}]
    description: What was ordered.
    freshness: 60s
  totals:
    from: {job: totals, output: 0}
"""
REPORT = """
version: 1
name: report
jobs:
  - {name: daily, activation: reactive, runtime: worker, operator: pass_on, outputs: 1,
     execution_strategy: PerUpdate, inputs: [{from: {dataset: orders}}], update_strategy: replace}
publish:
  daily:
    from: {job: daily, output: 0}
"""
COLUMNS = (
    Column("id", "bigint"),
    Column("buyer", "text"),
    Column("amount", "numeric(78, 0)"),
    Column("at", "timestamptz"),
    Column("hash", "bytea"),
)


def order(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "buyer": f"buyer {number}",
        "amount": str(2**256 - number),
        "at": datetime(2026, 1, 15, 12, 0, number % 60, tzinfo=UTC),
        "hash": bytes([number % 256, 255]),
        **changes,
    }


@dataclass(frozen=True)
class Library:
    """One org with the DAG `shop`, which `creator` deployed."""

    served: Served
    admin: Person
    creator: Person

    @property
    def org_id(self) -> OrgId:
        return self.served.app.own_org

    def member(self, name: str, role: PlatformRole, *roles: str) -> Person:
        app, person = self.served.app, self.served.member(name, role)
        for each in roles:
            app.members.add_role(self.org_id, each, SYSTEM)
            app.members.grant(self.org_id, each, self.user_id(name), SYSTEM)
        return person

    def user_id(self, name: str) -> Any:
        members = self.served.app.members.list(self.org_id)
        return next(each["user_id"] for each in members if each["subject"] == name)

    def deploy(self, person: Person, text: str = SHOP) -> None:
        person.ok("POST", "/v1/dags", {"text": text, "filename": "dag.yaml"})

    def rows(self, sql: str, **params: Any) -> list[Any]:
        return self.served.app.state.read(sql, params)

    def change(self, sql: str, **params: Any) -> None:
        self.served.app.state.write("test", sql, params)

    def version(self, job: str) -> tuple[UUID, UUID]:
        """The dataset and the current version of a job's first output."""
        row = self.rows(
            "SELECT c.dataset_uuid, c.dataset_version FROM dataset_current c JOIN datasets s"
            " ON s.dataset_uuid = c.dataset_uuid WHERE s.job_name = %(job)s AND s.org_id = %(org)s",
            job=job,
            org=self.org_id,
        )[0]
        return row.dataset_uuid, row.dataset_version

    def stored_in(self, job: str, backend: str = "s3") -> tuple[UUID, UUID]:
        """Let the output have rows behind it, instead of announcements alone."""
        dataset, version = self.version(job)
        self.change(
            "UPDATE dataset_versions SET backend = %(backend)s WHERE dataset_version = %(version)s",
            backend=backend,
            version=version,
        )
        return dataset, version

    def commit(self, version: UUID, scope: Scope, *, rows: int = 10, size: int = 1000) -> int:
        """As a task would register it: the next number, readable at once."""
        app = self.served.app
        bounds = scope.range or (None, None)
        counter = app.state.write(
            "test",
            "UPDATE version_counters SET last_number = last_number + 1, readable = readable + 1"
            " WHERE dataset_version = %(version)s RETURNING readable",
            {"version": version},
        )[0]
        number = int(counter.readable)
        key = f"{self.prefix(version)}staging/{number}/rows.parquet"
        self.change(
            "UPDATE commits SET replaced_at = %(number)s WHERE dataset_version = %(version)s"
            " AND scope = %(scope)s AND replaced_at IS NULL",
            number=number,
            version=version,
            scope=scope.key,
        )
        self.change(
            "INSERT INTO commits (dataset_version, number, scope, range_start, range_end, task_id,"
            " attempt, lease_sequence, output_index, input_pins, objects, bytes, row_count,"
            " registered_at) VALUES (%(version)s, %(number)s, %(scope)s, %(start)s, %(end)s,"
            " %(task)s, 1, 1, 0, '[]', %(objects)s, %(size)s, %(rows)s, %(now)s)",
            version=version,
            number=number,
            scope=scope.key,
            start=bounds[0],
            end=bounds[1],
            task=app.ids.uuid(),
            objects=as_json([{"key": key, "bytes": size, "rows": rows}]),
            size=size,
            rows=rows,
            now=app.clock.now(),
        )
        app.objects.create(key, b"x" * 10)
        return number

    def write(self, version: UUID, scope: Scope, rows: Sequence[Mapping[str, Any]]) -> Manifest:
        """Objects and a manifest, as a task would write them, committed."""
        app = self.served.app
        number = self.commit(version, scope, rows=len(rows))
        app.objects.delete(f"{self.prefix(version)}staging/{number}/rows.parquet")
        row = self.rows(
            "SELECT dataset_uuid FROM dataset_versions WHERE dataset_version = %(v)s", v=version
        )[0]
        identity = ManifestIdentity(
            DatasetUuid(row.dataset_uuid),
            DatasetVersion(version),
            TaskId(app.ids.uuid()),
            1,
            1,
            0,
            scope,
        )
        prefix = f"{self.prefix(version)}staging/{number}/"
        table = pa.Table.from_pylist([dict(each) for each in rows], arrow_schema(COLUMNS))
        manifest = write_objects(app.objects, prefix, identity, COLUMNS, table)
        self.change(
            "UPDATE commits SET objects = %(objects)s, manifest_key = %(key)s,"
            " manifest_sha256 = %(digest)s, bytes = %(bytes)s"
            " WHERE dataset_version = %(version)s AND number = %(number)s",
            objects=as_json([each.fields() for each in manifest.objects]),
            key=f"{scope_folder(prefix, scope)}{MANIFEST_NAME}",
            digest=manifest.digest,
            bytes=manifest.bytes,
            version=version,
            number=number,
        )
        self.change(
            "UPDATE dataset_versions SET columns = %(columns)s WHERE dataset_version = %(version)s",
            columns=as_json([{"name": each.name, "type": each.type} for each in COLUMNS]),
            version=version,
        )
        return manifest

    def prefix(self, version: UUID) -> str:
        row = self.rows(
            "SELECT org_id, dataset_uuid FROM dataset_versions WHERE dataset_version = %(v)s",
            v=version,
        )[0]
        return version_prefix(row.org_id, row.dataset_uuid, version)

    def keys(self, version: UUID) -> Sequence[str]:
        return [each.key for each in self.served.app.objects.list(self.prefix(version))]

    def announce(self, job: str, *cursors: int) -> None:
        """Events of an output, as if a task had announced them."""
        _, version = self.version(job)
        app = self.served.app
        for cursor in cursors:
            number = app.state.write(
                "test",
                "UPDATE version_counters SET last_number = last_number + 1,"
                " readable = readable + 1 WHERE dataset_version = %(v)s RETURNING readable",
                {"v": version},
            )[0].readable
            self.change(
                "INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id,"
                " org_id, attempt, range_start, range_end, accepted_at, number) VALUES (%(task)s,"
                " %(version)s, %(scope)s, 0, %(event)s, %(org)s, 1, %(cursor)s, %(cursor)s,"
                " %(now)s, %(number)s)",
                task=app.ids.uuid(),
                version=version,
                scope=f"c{cursor}",
                event=app.ids.event_id(),
                org=self.org_id,
                cursor=cursor,
                now=app.clock.now(),
                number=number,
            )

    def next_version(self, job: str, *, cut_over: bool = True) -> UUID:
        """A deploy of the job with another definition: built, and current if it was cut over."""
        app, ids = self.served.app, self.served.app.ids
        dataset, former = self.version(job)
        made = {
            "job": ids.uuid(),
            "version": ids.uuid(),
            "dag_version": ids.uuid(),
            "deploy": ids.uuid(),
            "former": former,
            "dataset": dataset,
            "now": app.clock.now(),
            "status": "Done" if cut_over else "Building",
        }
        self.change(
            "INSERT INTO jobs (job_id, org_id, dag_id, name, fingerprint, activation, runtime,"
            " operator, definition, outputs, priority, max_attempts, timeout_seconds,"
            " heartbeat_seconds, created_at) SELECT %(job)s, j.org_id, j.dag_id, j.name,"
            " %(job)s::text, j.activation, j.runtime, j.operator, j.definition, j.outputs,"
            " j.priority, j.max_attempts, j.timeout_seconds, j.heartbeat_seconds, %(now)s"
            " FROM jobs j JOIN dataset_versions v ON v.job_id = j.job_id"
            " WHERE v.dataset_version = %(former)s",
            **made,
        )
        self.change(
            "INSERT INTO dataset_versions (dataset_version, dataset_uuid, org_id, job_id,"
            " output_index, created_at, backend) SELECT %(version)s, dataset_uuid, org_id, %(job)s,"
            " output_index, %(now)s, backend FROM dataset_versions"
            " WHERE dataset_version = %(former)s",
            **made,
        )
        self.change("INSERT INTO version_counters (dataset_version) VALUES (%(version)s)", **made)
        self.change(
            "INSERT INTO dag_versions (dag_version_id, org_id, dag_id, number, content_sha256,"
            " source, created_at) SELECT %(dag_version)s, d.org_id, d.dag_id, 1 + max(g.number),"
            " %(dag_version)s::text, '', %(now)s FROM dags d JOIN dag_versions g"
            " ON g.dag_id = d.dag_id JOIN datasets s ON s.dag_id = d.dag_id"
            " WHERE s.dataset_uuid = %(dataset)s GROUP BY d.org_id, d.dag_id",
            **made,
        )
        # The other jobs stay what they are.
        self.change(
            "INSERT INTO dag_version_jobs (dag_version_id, job_id) SELECT %(dag_version)s,"
            " CASE WHEN a.job_id = v.job_id THEN %(job)s::uuid ELSE a.job_id END"
            " FROM dataset_versions v JOIN datasets s ON s.dataset_uuid = v.dataset_uuid"
            " JOIN dags d ON d.dag_id = s.dag_id JOIN dag_version_jobs a"
            " ON a.dag_version_id = d.active_dag_version_id"
            " WHERE v.dataset_version = %(former)s",
            **made,
        )
        self.change(
            "INSERT INTO deploys (deploy_id, org_id, dag_id, number, kind, from_version,"
            " to_version, status, created_at, cut_over_at, ended_at) SELECT %(deploy)s, d.org_id,"
            " d.dag_id, g.number, 'deploy', d.active_dag_version_id, g.dag_version_id, %(status)s,"
            " %(now)s, CASE WHEN %(status)s = 'Done' THEN %(now)s::timestamptz END,"
            " CASE WHEN %(status)s = 'Done' THEN %(now)s::timestamptz END FROM dags d"
            " JOIN dag_versions g ON g.dag_id = d.dag_id AND g.dag_version_id = %(dag_version)s",
            **made,
        )
        if cut_over:
            self.change(
                "UPDATE dags SET active_dag_version_id = %(dag_version)s WHERE dag_id ="
                " (SELECT dag_id FROM dag_versions WHERE dag_version_id = %(dag_version)s)",
                **made,
            )
            self.change(
                "WITH moved AS (UPDATE dataset_current SET dataset_version = %(version)s,"
                " swap = swap + 1 WHERE dataset_uuid = %(dataset)s RETURNING swap)"
                " INSERT INTO pointer_moves (dataset_uuid, swap, dataset_version, moved_at)"
                " SELECT %(dataset)s, swap, %(version)s, %(now)s FROM moved",
                **made,
            )
        return UUID(int=made["version"].int)
