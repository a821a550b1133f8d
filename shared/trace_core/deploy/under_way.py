"""What people do to a deploy that is under way: let it rest, let it go on, give it up."""

from __future__ import annotations

from typing import Any

from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.deploy.lookup import locked_dag
from trace_core.deploy.statements import SQL
from trace_core.deploy.switch import drop_build_limit, follow_standing, lock_for_switch
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.events import RUNTIMES


class DeploysUnderWay:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def cancel(self, org_id: OrgId, dag: str, actor: Actor) -> int:
        with self._state.transaction("cancel_deploy") as tx:
            deploy, params = self._open_deploy(tx, org_id, dag, actor)
            tx.run(
                SQL["set_status"],
                params | {"was": deploy.status, "status": "Canceled", "error": None},
            )
            versions = lock_for_switch(tx, params)
            tx.run(SQL["drop_candidates"], params)
            drop_build_limit(tx, params)
            follow_standing(tx, params)
            tx.run(SQL["raise_epochs"], {"versions": versions})
            tx.run(
                SQL["wake_dag"],
                params
                | {"outbox_ids": self._ids.many(RUNTIMES), "wake_fanout": limits.WAKE_FANOUT},
            )
            self._audit.record(tx, org_id, actor, "deploy.cancel", dag, deploy=deploy.number)
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        return int(deploy.number)

    def set_paused(self, org_id: OrgId, dag: str, actor: Actor, *, paused: bool) -> int:
        with self._state.transaction("pause_deploy") as tx:
            deploy, params = self._open_deploy(tx, org_id, dag, actor)
            if paused and deploy.status == "Paused":
                return int(deploy.number)
            if paused and deploy.status != "Building":
                raise Conflict(f"Deploy {deploy.number} of {dag} is {deploy.status}.", dag=dag)
            status = "Paused" if paused else "Building"
            tx.run(
                SQL["set_status"],
                params | {"was": deploy.status, "status": status, "error": None},
            )
            tx.all(SQL["refresh_standing"], params)
            tx.run(
                SQL["wake_dag"],
                params
                | {"outbox_ids": self._ids.many(RUNTIMES), "wake_fanout": limits.WAKE_FANOUT},
            )
            action = "deploy.pause" if paused else "deploy.resume"
            self._audit.record(tx, org_id, actor, action, dag, deploy=deploy.number)
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        return int(deploy.number)

    def _open_deploy(
        self, tx: Transaction, org_id: OrgId, dag: str, actor: Actor
    ) -> tuple[Row, dict[str, Any]]:
        row = locked_dag(tx, org_id, dag)
        actor.require_deploy_right(dag, row.created_by, row.deploy_roles)
        params: dict[str, Any] = {"org_id": org_id, "dag_id": row.dag_id, "now": self._clock.now()}
        deploy = tx.one(SQL["open_deploy"], params)
        if deploy is None:
            raise NotFound(f"No deploy of {dag} is under way.", dag=dag)
        return deploy, params | {
            "deploy_id": deploy.deploy_id,
            "from_version": deploy.from_version,
            "to_version": deploy.to_version,
        }
