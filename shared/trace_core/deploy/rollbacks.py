"""Rollback: a version that was active before becomes active again, code and data together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_core.database.state import StateDatabase
from trace_core.deploy.deploy_views import no_such_version
from trace_core.deploy.lookup import locked_dag
from trace_core.deploy.statements import SQL
from trace_core.deploy.switch import Switch, switch_version
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.errors import DeployUnderWay, Invalid
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker


@dataclass(frozen=True)
class RollbackResult:
    dag: str
    version: int
    deploy: int
    """The number of the rollback among the deploys."""
    behind: Mapping[str, int]
    """Restored job -> events that it has to catch up."""
    canceled: Mapping[str, int]
    """Job of the version that is gone -> tasks that end with it."""


class Rollbacks:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def rollback(
        self, org_id: OrgId, dag: str, actor: Actor, *, version: int | None = None
    ) -> RollbackResult:
        """To the version, or else to the one that was active last."""
        with self._state.transaction("rollback") as tx:
            row = locked_dag(tx, org_id, dag)
            actor.require_deploy_right(dag, row.created_by, row.deploy_roles)
            params: dict[str, Any] = {
                "org_id": org_id,
                "dag_id": row.dag_id,
                "from_version": row.active_dag_version_id,
                "user_id": actor.user_id,
                "now": self._clock.now(),
            }
            under_way = tx.one(SQL["open_deploy"], params)
            if under_way is not None:
                raise DeployUnderWay(
                    f"Deploy {under_way.number} of {dag} is {under_way.status}: what is current is "
                    f"untouched. Cancel it first: `trace deploy cancel {dag}`.",
                    dag=dag,
                    deploy=under_way.number,
                )
            target = tx.one(
                SQL["versions_to_return_to"],
                params | {"active": row.active_dag_version_id, "number": version},
            )
            if target is None:
                raise Invalid(no_such_version(dag, version), dag=dag)
            params |= {"to_version": target.dag_version_id, "deploy_id": self._ids.uuid()}
            added = tx.one(
                SQL["add_deploy"],
                params
                | {"kind": "rollback", "status": "Draining", "plan": None, "capacity_id": None},
            )
            switch_version(tx, self._ids, Switch.of(params, dag, "rollback"))
            self._audit.record(tx, org_id, actor, "dag.rollback", dag, version=target.number)
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        jobs = self._state.read(SQL["waiting_of_version"], {"dag_id": params["dag_id"]})
        return RollbackResult(
            dag,
            target.number,
            added.number if added else 0,
            {row.name: row.missed + row.waiting for row in jobs if row.standing != "retired"},
            {row.name: row.waiting + row.running for row in jobs if row.standing == "retired"},
        )
