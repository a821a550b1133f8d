"""What people do to tasks: cancel, and retry one that ended without success."""

from __future__ import annotations

from typing import Any

from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.announcements import RUNTIMES
from trace_core.tasks.model import TaskStatus
from trace_core.tasks.statements import SQL


class NotCancelable(Conflict):
    """The task has ended, or is the durable run of a source: pause its DAG instead."""

    code = "NotCancelable"


class NotRetryable(Conflict):
    """Only a task that ended Failed or Canceled can be retried."""

    code = "NotRetryable"


class TaskAdmin:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def cancel(self, org_id: OrgId, task_id: TaskId, actor: Actor) -> TaskStatus:
        """Canceled at once when it waits; a running task is asked, and stays Running until then."""
        params = self._params(org_id, task_id)
        with self._state.transaction("cancel") as tx:
            task = tx.one(SQL["task_of_org"], params)
            if task is None:
                raise NotFound(task_id=str(task_id))
            job = self._changed_by(tx, params, "task.cancel", actor)
            if job.activation == "source":
                raise NotCancelable(task_id=str(task_id))
            params |= {"job_id": task.job_id, "priority": task.priority}
            # A claim may move the task between the two places: look at both, twice.
            for _ in range(2):
                if tx.all(SQL["cancel_running"], params):
                    rows, status = [], TaskStatus.RUNNING
                    break
                rows = tx.all(SQL["cancel_waiting"], params)
                if any(row.task_id is not None for row in rows):
                    status = TaskStatus.CANCELED
                    break
            else:
                ended = tx.one(SQL["final_outcome"], params)
                if ended is not None and ended.outcome == TaskStatus.CANCELED:
                    return TaskStatus.CANCELED
                if ended is None:
                    return TaskStatus.RUNNING
                raise NotCancelable(task_id=str(task_id), outcome=ended.outcome)
            # Reserved or running, its run is to end as well.
            run = tx.all(SQL["cancel_run_of_task"], params)
        if run or any(row.woke for row in rows):
            self._waker.wake(Function.OUTBOX_RELAY)
        return status

    def retry(self, org_id: OrgId, task_id: TaskId, actor: Actor) -> TaskStatus:
        params = self._params(org_id, task_id)
        with self._state.transaction("retry") as tx:
            task = tx.one(SQL["task_of_org"], params)
            if task is None:
                raise NotFound(task_id=str(task_id))
            self._changed_by(tx, params, "task.retry", actor)
            rows = tx.all(SQL["retry_ended"], params | {"priority": task.priority})
            if not rows:
                raise NotRetryable(task_id=str(task_id))
        self._waker.wake(Function.OUTBOX_RELAY)
        return TaskStatus.QUEUED

    def _changed_by(
        self, tx: Transaction, params: dict[str, Any], action: str, actor: Actor
    ) -> Row:
        """The task's job, once the actor may change it; what is refused later is rolled back."""
        job = tx.one(SQL["job_of_task"], params)
        if job is None:
            raise NotFound(task_id=str(params["task_id"]))
        actor.require_deploy_right(job.dag, job.created_by, job.deploy_roles)
        self._audit.record(
            tx, params["org_id"], actor, action, str(params["task_id"]), job=f"{job.dag}.{job.job}"
        )
        return job

    def _params(self, org_id: OrgId, task_id: TaskId) -> dict[str, Any]:
        return {
            "org_id": org_id,
            "task_id": task_id,
            "now": self._clock.now(),
            "outbox_id": self._ids.uuid(),
            "cancel_outbox_id": self._ids.uuid(),
            "release_outbox_ids": self._ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        }
