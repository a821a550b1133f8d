"""What people see of a DAG: its jobs, its versions, and the file of each."""

from __future__ import annotations

from typing import Any

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId

SQL = Statements("trace_core.deploy", "views.sql")
_LAST = 2**31 - 1


class DagViews:
    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def dag(self, org_id: OrgId, dag: str) -> dict[str, Any]:
        """With the jobs of its active version."""
        params = {"org_id": org_id, "dag": dag}
        rows = self._state.read(SQL["show_dag"], params)
        if not rows:
            raise NotFound(f"No DAG {dag}.", dag=dag)
        found: dict[str, Any] = rows[0]._asdict()
        params["dag_version_id"] = found.pop("active_dag_version_id")
        jobs = self._state.read(SQL["jobs_of_version"], params)
        return {**found, "jobs": [row._asdict() for row in jobs]}

    def versions(
        self, org_id: OrgId, dag: str, *, limit: int, before: int | None = None
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last number of the page before."""
        bound = _LAST if before is None else before
        params = {"org_id": org_id, "dag": dag, "before": bound, "limit": limit}
        rows = self._state.read(SQL["list_versions"], params)
        if not rows and not self._state.read(SQL["show_dag"], params):
            raise NotFound(f"No DAG {dag}.", dag=dag)
        return [row._asdict() for row in rows]

    def version(self, org_id: OrgId, dag: str, number: int) -> dict[str, Any]:
        params = {"org_id": org_id, "dag": dag, "number": number}
        rows = self._state.read(SQL["show_version"], params)
        if not rows:
            raise NotFound(f"No version {number} of a DAG {dag}.", dag=dag, version=number)
        found: dict[str, Any] = rows[0]._asdict()
        return found
