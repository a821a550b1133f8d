"""Outputs that an attempt reports: whose they are, and those with rows ready to be registered.

Manifests are read before the transaction opens; what is wrong with one is said only once the fence
has been verified, so that an attempt that is over hears that, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase, Transaction
from trace_core.kernel.errors import Conflict, Invalid, Rejected, TraceError
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Lease, Written
from trace_core.storage.model import Backend, Manifest, ManifestIdentity
from trace_core.storage.recorded import Recorded
from trace_core.tasks.announcements import ForeignOutput
from trace_core.tasks.api import OutputIn
from trace_core.tasks.model import is_own_location, staging_prefix, table_location
from trace_core.tasks.statements import SQL

_RUN = re.compile(r"/staging/[0-9a-f-]{36}/\d{1,10}-(\d{1,10})/")


class ForeignLocation(Invalid):
    """An output lies outside the prefix that this attempt may write."""

    code = "ForeignLocation"


class CommitUnknown(Invalid):
    """The data database has no such commit of this task: report what was recorded there."""

    code = "CommitUnknown"


class ReadRecords(Protocol):
    """What the data database has recorded of commits, named by version and number."""

    def __call__(self, wanted: Sequence[tuple[UUID, int]]) -> set[Recorded]: ...


class ReadManifest(Protocol):
    """The manifest under a key, verified against what lies beside it and what is expected."""

    def __call__(self, key: str, prefix: str, expected: ManifestIdentity) -> Manifest: ...


@dataclass(frozen=True)
class Prepared:
    """What was read outside of the transaction, by the location of its output."""

    manifests: Mapping[str, Manifest | TraceError] = field(default_factory=dict)
    records: frozenset[Recorded] | None = None
    """None where the data database cannot be asked."""


@dataclass(frozen=True)
class CommittedOutput:
    """What became of one output with rows."""

    output_index: int
    dataset_version: UUID
    scope: Scope
    commit_number: int


@dataclass(frozen=True)
class JobOutputs:
    """The dataset versions that a job produces, and what each is kept in."""

    by_identity: Mapping[tuple[int, UUID, UUID], Backend]

    @staticmethod
    def read(tx: Transaction, job_id: UUID) -> JobOutputs:
        rows = tx.all(SQL["outputs_of_job"], {"job_id": job_id})
        return JobOutputs(
            {
                (row.output_index, row.dataset_uuid, row.dataset_version): Backend(row.backend)
                for row in rows
            }
        )

    def backend(self, dataset_uuid: UUID, dataset_version: UUID) -> Backend | None:
        for (_, dataset, version), backend in self.by_identity.items():
            if (dataset, version) == (dataset_uuid, dataset_version):
                return backend
        return None


class Outputs:
    def __init__(
        self,
        state: StateDatabase,
        read_manifest: ReadManifest | None,
        read_records: ReadRecords | None = None,
    ) -> None:
        self._state = state
        self._read_manifest = read_manifest
        self._read_records = read_records
        self._backends: dict[UUID, Backend] = {}

    def prepare(
        self, org_id: OrgId, task_id: UUID, attempt: int, outputs: Sequence[OutputIn]
    ) -> Prepared:
        self._learn_backends({output.dataset_version for output in outputs})
        return Prepared(
            {
                output.location: self._manifest(org_id, task_id, attempt, output)
                for output in outputs
                if self._backends.get(output.dataset_version) is Backend.S3
            },
            self._recorded(outputs),
        )

    def _recorded(self, outputs: Sequence[OutputIn]) -> frozenset[Recorded] | None:
        wanted = [
            (output.dataset_version, output.commit_number)
            for output in outputs
            if self._backends.get(output.dataset_version) is Backend.POSTGRES
            and output.commit_number is not None
        ]
        if self._read_records is None or not wanted:
            return None
        return frozenset(self._read_records(wanted))

    def _learn_backends(self, versions: Iterable[UUID]) -> None:
        """They never change, so each is asked for once."""
        missing = [version for version in versions if version not in self._backends]
        if missing:
            for row in self._state.read(SQL["backends"], {"versions": Uuids(missing)}):
                self._backends[row.dataset_version] = Backend(row.backend)

    def _manifest(
        self, org_id: OrgId, task_id: UUID, attempt: int, output: OutputIn
    ) -> Manifest | TraceError:
        # The lease is not known yet: whether this was the number of its is checked later.
        run = _RUN.search(output.location)
        sequence = int(run[1]) if run else 0
        prefix = _prefix(org_id, Lease(task_id, attempt, sequence), output)
        if not is_own_location(output.location, prefix, output.dataset_uuid):
            return ForeignLocation(task_id=str(task_id), output_index=output.output_index)
        if self._read_manifest is None:
            raise Invalid(
                "This deployment has no object store for the rows of datasets.",
                output_index=output.output_index,
            )
        expected = ManifestIdentity(
            DatasetUuid(output.dataset_uuid), DatasetVersion(output.dataset_version),
            TaskId(task_id), attempt, sequence, output.output_index, output.scope,
        )  # fmt: skip
        try:
            return self._read_manifest(output.location, prefix, expected)
        except (Rejected, Conflict) as error:
            return error

    def written(
        self,
        org_id: OrgId,
        lease: Lease,
        outputs: Sequence[OutputIn],
        produced: JobOutputs,
        prepared: Prepared,
    ) -> list[tuple[OutputIn, Written]]:
        """Those with rows; raises for an output that is not this attempt's."""
        found = []
        for output in outputs:
            identity = (output.output_index, output.dataset_uuid, output.dataset_version)
            named: dict[str, Any] = {
                "task_id": str(lease.task_id),
                "output_index": output.output_index,
            }
            backend = produced.by_identity.get(identity)
            if backend is None:
                raise ForeignOutput(**named)
            table = output.location == table_location(output.dataset_uuid)
            prefix = _prefix(org_id, lease, output)
            if not is_own_location(output.location, prefix, output.dataset_uuid) or (
                backend is not Backend.CONTROL and table is not (backend is Backend.POSTGRES)
            ):
                raise ForeignLocation(**named)
            if backend is Backend.S3:
                found.append((output, _of_manifest(output, lease, prepared)))
            elif backend is Backend.POSTGRES:
                found.append((output, _of_record(output, lease, prepared)))
        return found


def _of_manifest(output: OutputIn, lease: Lease, prepared: Prepared) -> Written:
    manifest = prepared.manifests[output.location]
    if isinstance(manifest, TraceError):
        raise manifest
    return Written(
        output.dataset_version, output.scope, lease, output.output_index,
        manifest_key=output.location, manifest=manifest,
    )  # fmt: skip


def _of_record(output: OutputIn, lease: Lease, prepared: Prepared) -> Written:
    if output.commit_number is None or output.written_by is None:
        raise Invalid(
            "An output in the data database is reported with commit_number, replaces and "
            "written_by, as its commit there was recorded.",
            output_index=output.output_index,
            field="commit_number",
        )
    by = Lease(lease.task_id, output.written_by.attempt, output.written_by.lease_sequence)
    if (by.attempt, by.lease_sequence) > (lease.attempt, lease.lease_sequence):
        raise Invalid(
            "written_by names a lease that this task has not had.",
            output_index=output.output_index,
            field="written_by",
        )
    reported = Recorded(
        output.dataset_version, output.commit_number, by.task_id, by.attempt, by.lease_sequence,
        output.output_index, output.scope_key, output.replaces or 0,
    )  # fmt: skip
    if prepared.records is not None and reported not in prepared.records:
        raise CommitUnknown(
            f"The data database has no commit {output.commit_number} of this task with that scope, "
            "lease and predecessor; report it as it was recorded there.",
            output_index=output.output_index,
            commit=output.commit_number,
        )
    return Written(
        output.dataset_version, output.scope, by, output.output_index, output.row_count,
        number=output.commit_number, replaces=output.replaces or 0,
    )  # fmt: skip


def _prefix(org_id: OrgId, lease: Lease, output: OutputIn) -> str:
    return staging_prefix(
        org_id, output.dataset_uuid, output.dataset_version, lease.task_id, lease.attempt,
        lease.lease_sequence, output.output_index,
    )  # fmt: skip
