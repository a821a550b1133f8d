"""The client's methods about plans, deploys, rollbacks and backfills."""

from __future__ import annotations

from typing import Any

from trace_client.calls import Calls, part
from trace_core.http import deploy_answers as answers


class DeployCalls(Calls):
    def plan(self, text: str, filename: str = "dag.yaml") -> answers.Planned:
        body = {"text": text, "filename": filename}
        return self._call(answers.Planned, "POST", "/v1/plans", body=body)

    def deploy(
        self,
        text: str,
        filename: str = "dag.yaml",
        *,
        expected_state: str | None = None,
        concurrency: int | None = None,
    ) -> answers.Deployed:
        """With the `state_token` of a plan: refused as `PlanStale` when the state has moved."""
        body: dict[str, Any] = {"text": text, "filename": filename}
        if expected_state is not None:
            body["expected_state"] = expected_state
        if concurrency is not None:
            body["concurrency"] = concurrency
        return self._call(answers.Deployed, "POST", "/v1/dags", body=body)

    def deploys(
        self, dag: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.DeployPage:
        path, query = f"/v1/dags/{part(dag)}/deploys", {"limit": limit, "cursor": cursor}
        return self._call(answers.DeployPage, "GET", path, query=query)

    def deploy_detail(self, dag: str, number: int) -> answers.DeployDetail:
        path = f"/v1/dags/{part(dag)}/deploys/{number}"
        return self._call(answers.DeployDetail, "GET", path)

    def pause_deploy(self, dag: str) -> answers.DeployState:
        return self._call(answers.DeployState, "POST", f"/v1/dags/{part(dag)}/deploys/pause")

    def resume_deploy(self, dag: str) -> answers.DeployState:
        return self._call(answers.DeployState, "POST", f"/v1/dags/{part(dag)}/deploys/resume")

    def cancel_deploy(self, dag: str) -> answers.DeployState:
        return self._call(answers.DeployState, "POST", f"/v1/dags/{part(dag)}/deploys/cancel")

    def rollback_preview(self, dag: str, version: int | None = None) -> answers.RollbackPreview:
        path = f"/v1/dags/{part(dag)}/rollback"
        return self._call(answers.RollbackPreview, "GET", path, query={"version": version})

    def rollback(self, dag: str, version: int | None = None) -> answers.RolledBack:
        path = f"/v1/dags/{part(dag)}/rollback"
        return self._call(answers.RolledBack, "POST", path, body={"version": version})

    def begin_backfill(
        self,
        dag: str,
        job: str,
        start: int,
        end: int,
        *,
        reason: str = "",
        window: int | None = None,
    ) -> answers.BackfillBegun:
        path = f"/v1/dags/{part(dag)}/jobs/{part(job)}/backfills"
        body: dict[str, Any] = {"start": start, "end": end, "reason": reason}
        if window is not None:
            body["window"] = window
        return self._call(answers.BackfillBegun, "POST", path, body=body)

    def backfills(
        self, dag: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.BackfillPage:
        path, query = f"/v1/dags/{part(dag)}/backfills", {"limit": limit, "cursor": cursor}
        return self._call(answers.BackfillPage, "GET", path, query=query)

    def pause_backfill(self, dag: str, number: int) -> answers.BackfillState:
        return self._backfill(dag, number, "pause")

    def resume_backfill(self, dag: str, number: int) -> answers.BackfillState:
        return self._backfill(dag, number, "resume")

    def cancel_backfill(self, dag: str, number: int) -> answers.BackfillState:
        return self._backfill(dag, number, "cancel")

    def _backfill(self, dag: str, number: int, action: str) -> answers.BackfillState:
        path = f"/v1/dags/{part(dag)}/backfills/{number}/{action}"
        return self._call(answers.BackfillState, "POST", path)
