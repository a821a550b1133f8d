"""What people see of tasks: read-only, and every number can be traced to its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId, TaskId, first_uuid7
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.tasks.statements import SQL

_LAST_ID = UUID(int=2**128 - 1)
_RECENT = timedelta(hours=24)
_SHOWN = 100
"""Attempts and events beside a task; both have lists of their own."""
_MANY_FAILURES = 5


@dataclass(frozen=True)
class BacklogMetrics:
    queued: dict[str, int]
    oldest_ready_at: dict[str, datetime | None]
    running: int
    retrying: int
    sources_failing: int
    """Sources that failed many times in a row; they back off and never give up."""
    oldest_expiry: datetime | None
    outbox_pending: int
    outbox_failed: int
    oldest_pending_at: datetime | None
    oldest_deploy_at: datetime | None
    deploys_stuck: int
    """Builds with an error, or whose checks failed: they wait for a person."""
    jobs_forbidden: int
    """Jobs that may no longer read an input, since whoever deployed them may not."""
    slots_quarantined: int


class Views:
    def __init__(self, state: StateDatabase, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def tasks(
        self,
        org_id: OrgId,
        *,
        dag: str | None = None,
        job: str | None = None,
        status: str | None = None,
        limit: int = 50,
        before: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last id of the page before."""
        rows = self._state.read(
            SQL["list_tasks"],
            {
                "org_id": org_id,
                "dag": dag,
                "job": job,
                "status": status,
                "limit": limit,
                "before": before or _LAST_ID,
            },
        )
        return [_task(row) for row in rows]

    def task(self, org_id: OrgId, task_id: TaskId) -> dict[str, Any]:
        params = {"org_id": org_id, "task_id": task_id, "limit": _SHOWN, "after": 0}
        rows = self._state.read(SQL["show_task"], params)
        if not rows:
            raise NotFound(task_id=str(task_id))
        return {
            **_task(rows[0]),
            "attempts": _rows(self._state.read(SQL["attempts_of_task"], params)),
            "runs": _rows(self._state.read(SQL["runs_of_task"], params)),
            "inputs": _rows(self._state.read(SQL["inputs_of_task"], params)),
            "outputs": [_scoped(row) for row in self._state.read(SQL["outputs_of_task"], params)],
            "events": [_scoped(row) for row in self._state.read(SQL["events_of_task"], params)],
        }

    def attempts(
        self, org_id: OrgId, task_id: TaskId, *, limit: int, after: int | None = None
    ) -> list[dict[str, Any]]:
        """Those that ended; `after` is the last number of the page before."""
        params = {"org_id": org_id, "task_id": task_id, "limit": limit, "after": after or 0}
        rows = self._state.read(SQL["attempts_of_task"], params)
        if not rows and not self.exists(org_id, task_id):
            raise NotFound(task_id=str(task_id))
        return _rows(rows)

    def exists(self, org_id: OrgId, task_id: TaskId) -> bool:
        params = {"org_id": org_id, "task_id": task_id}
        return bool(self._state.read(SQL["task_of_org"], params))

    def status(self, org_id: OrgId) -> dict[str, Any]:
        """Backlog and progress of each job, and what waits to leave the database.

        `completed_24h` counts the tasks that were made in the last 24 hours and have completed:
        all of history would be a scan of it.
        """
        since = first_uuid7(self._clock.now() - _RECENT)
        params = {"org_id": org_id, "since": since, "until": _LAST_ID}
        rows = self._state.read(SQL["completed_since"], params)
        completed = {row.job_id: row.completed for row in rows}
        jobs = []
        for row in self._state.read(SQL["job_backlog"], {"org_id": org_id}):
            found = row._asdict()
            jobs.append({"completed_24h": completed.get(found.pop("job_id"), 0), **found})
        outbox = self._state.read(SQL["outbox_of_org"], {"org_id": org_id})[0]
        return {
            "now": self._clock.now(),
            "jobs": jobs,
            "totals": {
                name: sum(job[name] for job in jobs)
                for name in ("queued", "running", "retrying", "failed", "completed_24h")
            },
            "outbox": outbox._asdict(),
        }

    def dags(self, org_id: OrgId) -> list[dict[str, Any]]:
        return _rows(self._state.read(SQL["list_dags"], {"org_id": org_id}))

    def backlog(self) -> BacklogMetrics:
        runtimes = self._state.read(SQL["backlog_metrics"], {})
        leases = self._state.read(SQL["lease_metrics"], {"many": _MANY_FAILURES})[0]
        outbox = self._state.read(SQL["outbox_metrics"], {})[0]
        deploys = self._state.read(SQL["deploy_metrics"], {})[0]
        return BacklogMetrics(
            {row.runtime: row.queued for row in runtimes},
            {row.runtime: row.oldest_ready_at for row in runtimes},
            leases.running,
            leases.retrying,
            leases.sources_failing,
            leases.oldest_expiry,
            outbox.pending,
            outbox.failed,
            outbox.oldest_pending_at,
            deploys.oldest_at,
            deploys.stuck,
            self._state.read(SQL["jobs_forbidden"], {})[0].count,
            self._state.read(SQL["slots_quarantined"], {"now": self._clock.now()})[0].count,
        )


def _rows(rows: list[Row]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]


def _task(row: Row) -> dict[str, Any]:
    fields = _scoped(row)
    return fields if row.scope else {**fields, "scope": None}


def _scoped(row: Row) -> dict[str, Any]:
    """With the scope as wire fields; an output has no bounds stored beside it."""
    fields: dict[str, Any] = row._asdict()
    start, end = fields.pop("range_start", None), fields.pop("range_end", None)
    fields["scope"] = Scope.parse(fields["scope"] or "", start, end).fields()
    return fields
