"""Purge: mark a dataset version, wait until no reader can be left, look again, delete.

A mark keeps new pins away. Deleting goes in batches and may be broken off anywhere: the next pass
goes on with whatever is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import SYSTEM, Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.object_store import ObjectStore
from trace_core.registry.read_rights import no_dataset
from trace_core.registry.standing import Kept, Uses, kept_by, standing_of
from trace_core.storage.model import Backend

SQL = Statements("trace_core.registry", "standing.sql", "purge.sql")
DropTable = Callable[[DatasetUuid, DatasetVersion], None]
"""Of the dataset and the version; one that is not there is no error."""
VERSIONS_MAX = 500
_OBJECTS = 100
_COMMITS = 1000
_DUE = 20
_USES = (
    *("is_current", "is_candidate", "is_rollback_target"),
    *("snapshots", "built_upon", "read_by", "written_by"),
)


class NotPurgeable(Conflict):
    """Something needs these versions; `trace dataset purge` without --yes says what."""

    code = "NotPurgeable"


class PurgeBegan(Conflict):
    """The time to change one's mind is over: it is being deleted."""

    code = "PurgeBegan"


@dataclass(frozen=True)
class PurgeReport:
    purged: int = 0
    """Versions of which nothing is left."""
    kept: int = 0
    """Versions that something needs after all."""
    objects: int = 0
    """Objects that were deleted."""


def version_prefix(org_id: UUID, dataset: UUID, version: UUID) -> str:
    """Under which every object of a version lies, whichever attempt wrote it."""
    return f"org/{org_id}/dataset/{dataset}/version/{version}/"


def reclaim(tx: Transaction, job_ids: Sequence[UUID], *, due_before: datetime) -> None:
    """Take back the marks of what these jobs write; what is due, or gone, is refused."""
    rows = tx.all(SQL["lock_of_jobs"], {"job_ids": list(job_ids)})
    marks = [(row.dataset_version, row.purge_marked_at) for row in rows if row.purge_marked_at]
    if any(row.purged_at for row in rows) or any(mark <= due_before for _, mark in marks):
        raise PurgeBegan("A version that this needs was purged; deploy its definition again.")
    if marks:
        tx.run(SQL["keep"], {"versions": [version for version, _ in marks]})


class Purges:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        objects: ObjectStore,
        drop_table: DropTable,
        *,
        grace: timedelta = limits.PURGE_GRACE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._clock = clock
        self._objects = objects
        self._drop_table = drop_table
        self._grace = grace
        self._monotonic = monotonic
        self._audit = Audit(state, clock, ids)

    # What administrators do -------------------------------------------------------------------

    def preview(
        self, org_id: OrgId, dataset: str, versions: Sequence[UUID] | None = None
    ) -> list[dict[str, Any]]:
        """Every version that is not purged, or those that are named, each with what keeps it.

        `dataset` is a published name, or the id of an output that has none.
        """
        datasets = self._datasets(org_id, dataset)
        params = _params(org_id, datasets, versions)
        rows = self._state.read(SQL["facts"], params)
        return self._described(rows, versions)

    def mark(
        self, org_id: OrgId, dataset: str, versions: Sequence[UUID], actor: Actor
    ) -> list[dict[str, Any]]:
        """All of them or none. A version that is marked already keeps its time."""
        datasets = self._datasets(org_id, dataset)
        params = _params(org_id, datasets, versions)
        with self._state.transaction("mark_purge") as tx:
            found = self._locked(tx, params)
            self._described(found, versions)
            if kept := {
                str(row.dataset_version): reasons for row in found if (reasons := _kept(row))
            }:
                raise NotPurgeable(
                    " ".join(text for reasons in kept.values() for _, text in reasons),
                    versions={each: [str(kind) for kind, _ in kept[each]] for each in kept},
                )
            marked = tx.all(SQL["mark"], params | {"now": self._clock.now()})
            if marked:
                self._audit.record(
                    tx, org_id, actor, "dataset.purge", dataset,
                    versions=sorted(str(row.dataset_version) for row in marked),
                    bytes=sum(row.bytes for row in found),
                )  # fmt: skip
            return self._described(tx.all(SQL["facts"], params), versions)

    def cancel(
        self, org_id: OrgId, dataset: str, versions: Sequence[UUID], actor: Actor
    ) -> list[dict[str, Any]]:
        """Let readers come again, as long as nothing has been deleted."""
        datasets = self._datasets(org_id, dataset)
        params = _params(org_id, datasets, versions)
        with self._state.transaction("cancel_purge") as tx:
            found = self._locked(tx, params)
            self._described(found, versions)
            if any(self._is_due(row) for row in found):
                raise PurgeBegan
            freed = tx.all(SQL["unmark"], params | {"marked_after": self._due_before()})
            if freed:
                self._audit.record(
                    tx, org_id, actor, "dataset.purge_cancel", dataset,
                    versions=sorted(str(row.dataset_version) for row in freed),
                )  # fmt: skip
            return self._described(tx.all(SQL["facts"], params), versions)

    # What a deploy does -----------------------------------------------------------------------

    def reclaim(self, tx: Transaction, job_ids: Sequence[UUID]) -> None:
        """Let a deploy or rollback use the versions of these jobs; the caller has locked their DAG.

        Marks are taken back. What is being deleted, or is gone, is refused.
        """
        reclaim(tx, job_ids, due_before=self._due_before())

    # The sweep --------------------------------------------------------------------------------

    def run_once(self, budget: timedelta = timedelta(seconds=30)) -> PurgeReport:
        """Delete what is due, as far as the time goes; any number may run at once."""
        ends_at = self._monotonic() + budget.total_seconds()
        purged = kept = objects = 0
        due = {"marked_before": self._due_before(), "limit": _DUE}
        for row in self._state.read(SQL["due"], due):
            unused = self._still_unused(row)
            if not unused:
                kept += unused is False
                continue
            deleted, whole = self._delete_objects(row, ends_at)
            objects += deleted
            if not whole:
                break
            if row.backend == Backend.POSTGRES:
                self._drop_table(row.dataset_uuid, row.dataset_version)
            self._close_commits(row)
            purged += self._finish(row)
        return PurgeReport(purged, kept, objects)

    def overdue(self) -> int:
        """Versions that should be gone by now, and that nothing seems to delete."""
        late = {"marked_before": self._due_before() - limits.PURGE_PATIENCE}
        return int(self._state.read(SQL["overdue"], late)[0].versions)

    def _still_unused(self, row: Row) -> bool | None:
        """Look again, under the same locks as the mark; what is needed after all is kept.

        None: another sweep, or somebody who changed their mind, was quicker.
        """
        params = _params(row.org_id, [row.dataset_uuid], [row.dataset_version])
        with self._state.transaction("check_purge") as tx:
            (found,) = self._locked(tx, params)
            if not self._is_due(found):
                return None
            reasons = _kept(found)
            if reasons:
                tx.run(SQL["keep"], params)
                self._audit.record(
                    tx, row.org_id, SYSTEM, "dataset.purge_kept", str(row.dataset_version),
                    reasons=[str(kind) for kind, _ in reasons],
                )  # fmt: skip
        return not reasons

    def _delete_objects(self, row: Row, ends_at: float) -> tuple[int, bool]:
        """How many, and whether none is left. Also what no commit names: attempts that failed."""
        if row.backend == Backend.CONTROL:
            return 0, True
        deleted = 0
        prefix = version_prefix(row.org_id, row.dataset_uuid, row.dataset_version)
        for info in self._objects.list(prefix):
            if deleted % _OBJECTS == 0 and self._monotonic() >= ends_at:
                return deleted, False
            self._objects.delete(info.key)
            deleted += 1
        return deleted, True

    def _close_commits(self, row: Row) -> None:
        params = {"dataset_version": row.dataset_version, "limit": _COMMITS}
        while True:
            with self._state.transaction("close_commits") as tx:
                if tx.run(SQL["close_commits"], params) < _COMMITS:
                    return

    def _finish(self, row: Row) -> int:
        params = {"dataset_version": row.dataset_version, "now": self._clock.now()}
        with self._state.transaction("finish_purge") as tx:
            # Another sweep may have been quicker.
            if tx.one(SQL["finish"], params) is None:
                return 0
            self._audit.record(
                tx, row.org_id, SYSTEM, "dataset.purged", str(row.dataset_version)
            )  # fmt: skip
        return 1

    # ------------------------------------------------------------------------------------------

    def _datasets(self, org_id: OrgId, dataset: str) -> list[UUID]:
        rows = self._state.read(
            SQL["datasets_by_name"], {"org_id": org_id, "dataset": dataset}
        ) or self._state.read(
            SQL["dataset_by_id"], {"org_id": org_id, "dataset_uuid": _id_or_none(dataset)}
        )
        if not rows:
            raise no_dataset(dataset)
        return [row.dataset_uuid for row in rows]

    def _locked(self, tx: Transaction, params: dict[str, Any]) -> list[Row]:
        tx.all(SQL["lock_dags"], params)
        tx.all(SQL["lock_versions"], params)
        return tx.all(SQL["facts"], params)

    def _described(
        self, rows: Sequence[Row], versions: Sequence[UUID] | None
    ) -> list[dict[str, Any]]:
        found = {row.dataset_version for row in rows}
        if missing := [each for each in versions or () if each not in found]:
            raise NotFound(f"The dataset has no version {missing[0]}.", version=str(missing[0]))
        return [self._version(row) for row in rows]

    def _version(self, row: Row) -> dict[str, Any]:
        gone = row.purged_at is not None
        deleted_after = row.purge_marked_at and row.purge_marked_at + self._grace
        return {
            "dataset_uuid": row.dataset_uuid,
            "dataset_version": row.dataset_version,
            "standing": standing_of(
                is_current=row.is_current,
                is_candidate=row.is_candidate,
                is_rollback_target=row.is_rollback_target,
                purge_marked_at=row.purge_marked_at,
                purged_at=row.purged_at,
            ),
            "backend": row.backend,
            "commits": row.commits,
            "row_count": row.row_count,
            "bytes": row.bytes,
            "objects": row.objects,
            "kept": []
            if gone
            else [{"reason": kind, "message": text} for kind, text in _kept(row)],
            "marked_at": row.purge_marked_at,
            "deleted_after": deleted_after,
            "purged_at": row.purged_at,
        }

    def _due_before(self) -> datetime:
        return self._clock.now() - self._grace

    def _is_due(self, row: Row) -> bool:
        marked, purged = row.purge_marked_at, row.purged_at
        return marked is not None and purged is None and marked <= self._due_before()


def _kept(row: Row) -> list[tuple[Kept, str]]:
    return kept_by(Uses(**{name: getattr(row, name) for name in _USES}))


def _params(
    org_id: UUID, datasets: Sequence[UUID], versions: Sequence[UUID] | None
) -> dict[str, Any]:
    return {
        "org_id": org_id,
        "dataset_uuids": list(datasets),
        "versions": None if versions is None else list(versions),
        "limit": VERSIONS_MAX,
    }


def _id_or_none(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
