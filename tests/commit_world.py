"""A world whose datasets have rows: manifests in a folder, and commits as the data database
reports them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.factories import World
from tests.manual_clock import ManualClock
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.dag.model import Column
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity, StoredObject
from trace_core.storage.objects import verify_manifest
from trace_core.tasks.api import EventsRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.complete import Completions
from trace_core.tasks.events import Accepted, EventAcceptance
from trace_core.tasks.model import staging_prefix, table_location

COLUMNS = (Column("cursor", "bigint"), Column("value", "text"))

FORK = """
version: 1
name: fork
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: side, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}, {from: {job: side, output: 0}}], outputs: 2,
     update_strategy: replace}
  - {name: c, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: b, output: 0}}], outputs: 1, update_strategy: replace}
"""
"""a triggers b, which reads side too; c follows b."""


class CommitWorld(World):
    def __init__(self, state: StateDatabase, clock: ManualClock, ids: Ids, folder: Path) -> None:
        super().__init__(state, clock, ids)
        self.objects = FileObjectStore(folder)
        self.completions = Completions(
            state, clock, ids, self.waker, self.jitter, read_manifest=self.read_manifest
        )
        self.acceptance = EventAcceptance(
            state, clock, ids, self.waker, read_manifest=self.read_manifest
        )

    def read_manifest(self, key: str, prefix: str, expected: ManifestIdentity) -> Manifest:
        return verify_manifest(self.objects, key, prefix, expected)

    def keep(self, job: str, backend: str, strategy: str = "replace", index: int = 0) -> None:
        """Until a deploy says so: where the rows of an output are kept."""
        _, version = self.output(job, index)
        self.state.write(
            "test",
            "UPDATE dataset_versions SET backend = %(backend)s, update_strategy = %(strategy)s"
            " WHERE dataset_version = %(version)s",
            {"backend": backend, "strategy": strategy, "version": version},
        )

    def take(self, job: str) -> Claimed:
        """Claim the oldest ready task of a job."""
        row = self.rows(
            "SELECT r.task_id FROM ready r JOIN jobs j ON j.job_id = r.job_id"
            " WHERE j.name = %(job)s AND j.org_id = %(org)s ORDER BY r.task_id LIMIT 1",
            job=job,
            org=self.org,
        )[0]
        (claim,) = self.claims.claim_ids(self.org, [row.task_id], "worker-1")
        assert isinstance(claim, Claimed), claim
        return claim

    def ready(self, job: str) -> int:
        return int(
            self.rows(
                "SELECT count(*) AS n FROM ready r JOIN jobs j ON j.job_id = r.job_id"
                " WHERE j.name = %(job)s",
                job=job,
            )[0].n
        )

    def written(
        self,
        claim: Claimed,
        job: str,
        scope: Scope,
        *,
        value: str = "",
        columns: Sequence[Column] = COLUMNS,
        index: int = 0,
        cursor_column: str | None = None,
    ) -> dict[str, Any]:
        """What the attempt wrote to its prefix, as it reports it."""
        dataset, version = self.output(job, index)
        prefix = staging_prefix(
            claim.org_id, dataset, version, claim.task_id, claim.attempt, claim.lease_sequence,
            index,
        )  # fmt: skip
        folder = scope_folder(prefix, scope)
        data = f"{job} {scope.key} {value}".encode()
        key = f"{folder}rows.parquet"
        self.objects.create(key, data)
        manifest = Manifest(
            DatasetUuid(dataset), DatasetVersion(version), TaskId(claim.task_id), claim.attempt,
            claim.lease_sequence, index, scope, tuple(columns),
            (StoredObject(key, len(data), 1, hashlib.sha256(data).hexdigest(), {}, {}),),
            cursor_column,
        )  # fmt: skip
        self.objects.create(folder + MANIFEST_NAME, manifest.canonical().encode())
        return {
            "output_index": index,
            "dataset_uuid": dataset,
            "dataset_version": version,
            "location": folder + MANIFEST_NAME,
            **scope.fields(),
        }

    def recorded(
        self,
        claim: Claimed,
        job: str,
        scope: Scope,
        number: int,
        *,
        replaces: int = 0,
        index: int = 0,
        by: tuple[int, int] | None = None,
    ) -> dict[str, Any]:
        """A commit of the data database, as the attempt that finds it reports it."""
        dataset, version = self.output(job, index)
        attempt, lease_sequence = by or (claim.attempt, claim.lease_sequence)
        return {
            "output_index": index,
            "dataset_uuid": dataset,
            "dataset_version": version,
            "location": table_location(dataset),
            "commit_number": number,
            "replaces": replaces,
            "written_by": {"attempt": attempt, "lease_sequence": lease_sequence},
            **scope.fields(),
        }

    def commit(
        self, claim: Claimed, outputs: Sequence[dict[str, Any]], events: Sequence[Any] = ()
    ) -> Accepted:
        """In the middle of a task."""
        fence = claim.fence
        return self.acceptance.accept(
            claim.org_id,
            EventsRequest.model_validate(
                {
                    "task_id": fence.task_id,
                    "attempt": fence.attempt,
                    "lease_token": fence.lease_token,
                    "outputs": list(outputs),
                    "events": list(events),
                }
            ),
        )

    def commits(self, job: str, index: int = 0) -> list[Any]:
        _, version = self.output(job, index)
        return self.rows(
            "SELECT * FROM commits WHERE dataset_version = %(version)s ORDER BY number",
            version=version,
        )

    def announced(self, job: str, index: int = 0) -> list[tuple[int, str, bool]]:
        """Revision, scope, and whether it rewrites, in the order of numbers."""
        _, version = self.output(job, index)
        rows = self.rows(
            "SELECT number, revision, scope, rewrites FROM events"
            " WHERE dataset_version = %(version)s ORDER BY number",
            version=version,
        )
        return [(row.revision, row.scope, row.rewrites) for row in rows]

    def counter(self, job: str, index: int = 0) -> Any:
        _, version = self.output(job, index)
        return self.rows(
            "SELECT * FROM version_counters WHERE dataset_version = %(version)s", version=version
        )[0]

    def live(self, job: str) -> dict[str, int]:
        """The number of the live commit of each scope."""
        return {row.scope: row.number for row in self.commits(job) if row.replaced_at is None}

    def content(self, job: str, scope: Scope) -> str:
        """What readers of the newest pin get for a scope."""
        (row,) = [
            row for row in self.commits(job) if row.scope == scope.key and row.replaced_at is None
        ]
        return self.objects.read(row.objects[0]["key"]).decode().rpartition(" ")[2]
