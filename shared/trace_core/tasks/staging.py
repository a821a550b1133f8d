"""Cleanup of staging: what attempts wrote and never committed, once nobody can commit it any more.

First the attempt is closed, so that a completion that comes later yet is refused; then its commits
are read; then the rest is deleted. A crash in between is made good by the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel import limits
from trace_core.ports.clock import Clock
from trace_core.ports.object_store import ObjectStore
from trace_core.tasks.model import attempt_prefix

SQL = Statements("trace_core.tasks", "staging.sql")


@dataclass(frozen=True)
class StagingReport:
    attempts: int = 0
    """Closed, and cleaned."""
    deleted: int = 0
    """Objects."""
    kept: int = 0
    """Objects that a slice of the attempt had committed."""


class StagingCleanup:
    """Any number run at once; deleting what is gone is no error."""

    def __init__(self, state: StateDatabase, clock: Clock, objects: ObjectStore) -> None:
        self._state = state
        self._clock = clock
        self._objects = objects

    def run_once(self, limit: int = 100) -> StagingReport:
        now = self._clock.now()
        closed = self._state.write(
            "close_attempts",
            SQL["close_attempts"],
            {"now": now, "ended_before": now - limits.STAGING_RETENTION, "limit": limit},
        )
        outputs = self._outputs([row.job_id for row in closed])
        deleted = kept = 0
        for attempt in closed:
            one_deleted, one_kept = self._clean(attempt, outputs.get(attempt.job_id, []))
            deleted += one_deleted
            kept += one_kept
            self._state.write(
                "mark_cleaned",
                SQL["mark_cleaned"],
                {"task_id": attempt.task_id, "attempt": attempt.attempt, "now": now},
            )
        return StagingReport(len(closed), deleted, kept)

    def _outputs(self, job_ids: Sequence[UUID]) -> dict[UUID, list[Row]]:
        outputs: dict[UUID, list[Row]] = {}
        rows = self._state.read(SQL["staged_outputs"], {"job_ids": Uuids(sorted(set(job_ids)))})
        for row in rows:
            outputs.setdefault(row.job_id, []).append(row)
        return outputs

    def _clean(self, attempt: Row, outputs: Sequence[Row]) -> tuple[int, int]:
        """The attempt is closed: what it has committed by now is all that it ever will."""
        committed: set[str] = set()
        params = {"task_id": attempt.task_id, "attempt": attempt.attempt}
        for row in self._state.read(SQL["committed_objects"], params):
            committed |= {row.manifest_key, row.key}
        deleted = kept = 0
        for output in outputs:
            prefix = attempt_prefix(
                attempt.org_id, output.dataset_uuid, output.dataset_version, attempt.task_id,
                attempt.attempt,
            )  # fmt: skip
            for found in list(self._objects.list(prefix)):
                if found.key in committed:
                    kept += 1
                else:
                    self._objects.delete(found.key)
                    deleted += 1
        return deleted, kept
