"""The client's methods about DAGs, tasks, events and what moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from trace_client.calls import Calls, part
from trace_core.http import work_answers as answers
from trace_core.outbox.model import OutboxStatus
from trace_core.tasks.model import TaskStatus


class WorkCalls(Calls):
    def status(self) -> answers.Status:
        return self._call(answers.Status, "GET", "/v1/status")

    # DAGs -------------------------------------------------------------------------------------

    def dags(self, *, limit: int | None = None, cursor: str | None = None) -> answers.DagPage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.DagPage, "GET", "/v1/dags", query=query)

    def dag(self, dag: str) -> answers.DagDetail:
        return self._call(answers.DagDetail, "GET", f"/v1/dags/{part(dag)}")

    def dag_versions(
        self, dag: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.DagVersionPage:
        query = {"limit": limit, "cursor": cursor}
        path = f"/v1/dags/{part(dag)}/versions"
        return self._call(answers.DagVersionPage, "GET", path, query=query)

    def dag_version(self, dag: str, number: int) -> answers.DagVersionDetail:
        path = f"/v1/dags/{part(dag)}/versions/{number}"
        return self._call(answers.DagVersionDetail, "GET", path)

    def pause_dag(self, dag: str) -> answers.DagState:
        return self._call(answers.DagState, "POST", f"/v1/dags/{part(dag)}/pause")

    def resume_dag(self, dag: str) -> answers.DagState:
        return self._call(answers.DagState, "POST", f"/v1/dags/{part(dag)}/resume")

    def set_deploy_roles(self, dag: str, roles: Sequence[str]) -> answers.DagRoles:
        path = f"/v1/dags/{part(dag)}/deploy-roles"
        return self._call(answers.DagRoles, "PUT", path, body={"roles": list(roles)})

    def trigger(self, dag: str, job: str, request: Mapping[str, Any]) -> answers.Asked:
        path = f"/v1/dags/{part(dag)}/jobs/{part(job)}/trigger"
        return self._call(answers.Asked, "POST", path, body={"request": dict(request)})

    # Tasks and events -------------------------------------------------------------------------

    def tasks(
        self,
        *,
        dag: str | None = None,
        job: str | None = None,
        status: TaskStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.TaskPage:
        query = {"dag": dag, "job": job, "status": status, "limit": limit, "cursor": cursor}
        return self._call(answers.TaskPage, "GET", "/v1/tasks", query=query)

    def task(self, task_id: UUID | str) -> answers.TaskDetail:
        return self._call(answers.TaskDetail, "GET", f"/v1/tasks/{part(task_id)}")

    def attempts(
        self, task_id: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.AttemptPage:
        path, query = f"/v1/tasks/{part(task_id)}/attempts", {"limit": limit, "cursor": cursor}
        return self._call(answers.AttemptPage, "GET", path, query=query)

    def logs(self, task_id: UUID | str) -> answers.Logs:
        return self._call(answers.Logs, "GET", f"/v1/tasks/{part(task_id)}/logs")

    def cancel_task(self, task_id: UUID | str) -> answers.TaskState:
        return self._call(answers.TaskState, "POST", f"/v1/tasks/{part(task_id)}/cancel")

    def retry_task(self, task_id: UUID | str) -> answers.TaskState:
        return self._call(answers.TaskState, "POST", f"/v1/tasks/{part(task_id)}/retry")

    def events(
        self,
        *,
        dag: str | None = None,
        job: str | None = None,
        task: UUID | str | None = None,
        scope: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.EventPage:
        query = {
            "dag": dag,
            "job": job,
            "task": task,
            "scope": scope,
            "limit": limit,
            "cursor": cursor,
        }
        return self._call(answers.EventPage, "GET", "/v1/events", query=query)

    # Operations -------------------------------------------------------------------------------

    def outbox(
        self,
        *,
        status: OutboxStatus | None = None,
        kind: str | None = None,
        target: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.OutboxPage:
        query = {
            "status": status,
            "kind": kind,
            "target": target,
            "limit": limit,
            "cursor": cursor,
        }
        return self._call(answers.OutboxPage, "GET", "/v1/outbox", query=query)

    def reset_outbox(
        self,
        *,
        status: OutboxStatus = OutboxStatus.FAILED,
        kind: str | None = None,
        target: str | None = None,
        outbox_ids: Sequence[UUID | str] | None = None,
    ) -> answers.OutboxDone:
        ids = None if outbox_ids is None else [str(each) for each in outbox_ids]
        body = {"status": status, "kind": kind, "target": target, "outbox_ids": ids}
        return self._call(answers.OutboxDone, "POST", "/v1/outbox/reset", body=body)

    def queues(self) -> answers.Queues:
        return self._call(answers.Queues, "GET", "/v1/queues")

    def redrive(self, runtime: str = "worker", limit: int = 1000) -> answers.Redriven:
        path = f"/v1/queues/{part(runtime)}/redrive"
        return self._call(answers.Redriven, "POST", path, body={"limit": limit})

    def quotas(self) -> answers.Counters:
        return self._call(answers.Counters, "GET", "/v1/quotas")

    def set_quota(
        self,
        *,
        max_running: int | None = None,
        reserved_for_live: int = 0,
        max_starts_hourly: int | None = None,
    ) -> answers.Quota:
        body = {
            "max_running": max_running,
            "reserved_for_live": reserved_for_live,
            "max_starts_hourly": max_starts_hourly,
        }
        return self._call(answers.Quota, "POST", "/v1/quotas", body=body)

    def slots(self, dag: str | None = None) -> answers.Slots:
        return self._call(answers.Slots, "GET", "/v1/slots", query={"dag": dag})

    def release_slot(self, dag: str, pool: str, slot: str) -> answers.SlotReleased:
        path = f"/v1/dags/{part(dag)}/pools/{part(pool)}/slots/{part(slot)}/release"
        return self._call(answers.SlotReleased, "POST", path)

    def clear_quota(self) -> answers.QuotaCleared:
        return self._call(answers.QuotaCleared, "POST", "/v1/quotas/clear")
