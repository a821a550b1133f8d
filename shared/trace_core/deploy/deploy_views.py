"""What people see of deploys: the list, how far a build is, what a rollback did or would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.deploy.statements import SQL as DEPLOY_SQL
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.kernel.ids import OrgId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.deploy", "deploy_views.sql")
_LAST = 2**31 - 1
_MANY = 100_000
"""Announcements of one version whose scopes are counted; of more, the announcements are."""
_UNDER_WAY = ("Building", "Paused", "Checking", "ChecksFailed")


class DeployViews:
    def __init__(self, state: StateDatabase, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def deploys(
        self, org_id: OrgId, dag: str, *, limit: int, before: int | None = None
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last number of the page before."""
        bound = _LAST if before is None else before
        params = {"org_id": org_id, "dag": dag, "limit": limit, "before": bound}
        rows = self._state.read(SQL["list_deploys"], params)
        if not rows:
            self.require_dag(org_id, dag)
        return [_shown(row) for row in rows]

    def require_dag(self, org_id: OrgId, dag: str) -> None:
        params = {"org_id": org_id, "dag": dag, "version": None}
        if not self._state.read(SQL["version_to_return_to"], params):
            raise NotFound(f"No DAG {dag}.", dag=dag)

    def deploy(self, org_id: OrgId, dag: str, number: int) -> dict[str, Any]:
        """With its progress while it is built, and with what it still has to do while it drains."""
        row = self._row(org_id, dag, number)
        params = {"dag_id": row.dag_id, "deploy_id": row.deploy_id, "many": _MANY}
        progress = None
        if row.status in _UNDER_WAY:
            jobs = self._state.read(SQL["build_progress"], params)
            held = self._state.read(SQL["held_tasks"], params)[0].tasks
            elapsed = ((row.built_at or self._clock.now()) - row.created_at).total_seconds()
            progress = build_progress(jobs, elapsed, held, whole=row.built_at is not None)
        behind, canceled = self._left(params) if row.status == "Draining" else ({}, {})
        return {
            **_shown(row),
            "dag": row.dag,
            "checks": row.report.get("checks", []),
            "moved": self._moved(params),
            "progress": progress,
            "behind": behind,
            "canceled": canceled,
        }

    def moved(self, org_id: OrgId, dag: str, number: int) -> list[dict[str, Any]]:
        """The outputs whose current version it has exchanged."""
        return self._moved({"deploy_id": self._row(org_id, dag, number).deploy_id})

    def rollback(self, org_id: OrgId, dag: str, version: int | None = None) -> dict[str, Any]:
        """What a rollback would do now."""
        params: dict[str, Any] = {"org_id": org_id, "dag": dag, "version": version}
        rows = self._state.read(SQL["version_to_return_to"], params)
        if not rows:
            raise NotFound(f"No DAG {dag}.", dag=dag)
        found = rows[0]
        if found.to_id is None:
            raise Invalid(no_such_version(dag, version), dag=dag)
        params = {"from_id": found.from_id, "to_id": found.to_id}
        jobs = self._state.read(SQL["jobs_of_return"], params)
        return {
            "dag": dag,
            "from_version": found.from_version,
            "to_version": found.to_version,
            "last_active_at": found.activated_at,
            "under_way": found.under_way,
            "restored": {row.job: row.missed for row in jobs if row.restored},
            "ended": {row.job: row.open for row in jobs if not row.restored},
        }

    def _row(self, org_id: OrgId, dag: str, number: int) -> Row:
        params = {"org_id": org_id, "dag": dag, "number": number}
        rows = self._state.read(SQL["show_deploy"], params)
        if not rows:
            raise NotFound(f"No deploy {number} of a DAG {dag}.", dag=dag, deploy=number)
        return rows[0]

    def _left(self, params: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
        """What restored jobs have to catch up, and which tasks of replaced ones are still there."""
        jobs = self._state.read(DEPLOY_SQL["waiting_of_version"], params)
        return (
            {row.name: row.missed + row.waiting for row in jobs if row.standing != "retired"},
            {row.name: row.waiting + row.running for row in jobs if row.standing == "retired"},
        )

    def _moved(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        return [row._asdict() for row in self._state.read(SQL["moved_pointers"], params)]


def no_such_version(dag: str, version: int | None) -> str:
    which = f"version {version}" if version else "earlier version"
    return f"DAG {dag} has no {which} that was active; see `trace dag versions {dag}`."


def build_progress(
    jobs: Sequence[Row], elapsed: float, held: int, *, whole: bool
) -> dict[str, Any]:
    """Share and time left of what is known; a job without an expectation counts in neither."""
    known = [row for row in jobs if row.expected is not None]
    expected = sum(row.expected for row in known)
    left = sum(max(0, row.expected - row.done) for row in known)
    share = 1.0 if whole else (expected - left) / expected if expected else None
    since = sum(min(row.done_since, row.expected) for row in known)
    time_left = 0.0 if whole else elapsed * left / since if since else None
    return {
        "jobs": [
            {
                name: getattr(row, name)
                for name in ("job", "standing", "waiting", "running", "done", "expected", "failed")
            }
            for row in jobs
        ],
        "share": share,
        "elapsed_seconds": elapsed,
        "left_seconds": time_left,
        "held_tasks": held,
    }


def _shown(row: Row) -> dict[str, Any]:
    hidden = ("deploy_id", "dag_id", "dag", "report")
    return {name: value for name, value in row._asdict().items() if name not in hidden}
