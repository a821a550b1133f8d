"""Deploy: from a DAG file to the version that is active, at once or after a build."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.catalog import Catalog
from trace_core.dag.digest import content_digest
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.load import load_dag
from trace_core.dag.model import Activation, Dag, Runtime, SourceKind
from trace_core.database.state import StateDatabase, Transaction
from trace_core.deploy.builds import begin_build
from trace_core.deploy.lookup import locked_dag
from trace_core.deploy.registration import MakeTable, Registration
from trace_core.deploy.rollbacks import RollbackResult, Rollbacks
from trace_core.deploy.statements import SQL
from trace_core.deploy.switch import Switch, switch_version
from trace_core.deploy.under_way import DeploysUnderWay
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.identity.orgs import SQL as ORG_SQL
from trace_core.kernel import limits
from trace_core.kernel.errors import DeployUnderWay, Invalid, PlanStale
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.registry.read_rights import ReadRights
from trace_core.tasks.events import RUNTIMES


@dataclass(frozen=True)
class DeployResult:
    dag: str
    version: int
    created: bool
    """False when this very definition is active or being built already: nothing changed."""
    jobs: tuple[str, ...]
    webhooks: tuple[str, ...] = ()
    """The jobs that others may call, once they have a secret."""
    deploy: int | None = None
    """The number of the deploy, when there is one."""
    status: str = "Done"
    builds: tuple[str, ...] = ()
    """The jobs whose data is built before the version becomes active."""


NEW_DAG = "new"
"""The state of a DAG that has no active version."""


def version_digest(dag: Dag, catalog: Catalog) -> str:
    """Of the definition and of the code that it names: newer code makes another version."""
    parts = [content_digest(dag), *sorted(job_fingerprints(dag, catalog).values())]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def state_token(tx: Transaction, params: Mapping[str, Any]) -> str:
    """What a plan was made from: it changes when the plan would be another one."""
    row = tx.one(SQL["plan_state"], params)
    if row is None or row.state["active"] is None:
        return NEW_DAG
    return hashlib.sha256(json.dumps(row.state).encode()).hexdigest()[:32]


class Deploys:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        catalog: Catalog,
        make_table: MakeTable | None = None,
    ) -> None:
        self._make_table = make_table
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._catalog = catalog
        self._audit = Audit(state, clock, ids)
        self._rights = ReadRights(state, clock, ids)
        self._rollbacks = Rollbacks(state, clock, ids, waker)
        self._under_way = DeploysUnderWay(state, clock, ids, waker)

    def deploy(
        self,
        org_id: OrgId,
        text: str,
        filename: str,
        actor: Actor,
        *,
        expected_state: str | None = None,
        concurrency: int | None = None,
    ) -> DeployResult:
        """Register the definition, and make it active: at once, or when its data is built.

        With `expected_state`, the token of a plan, nothing is done when the state has moved since.
        """
        dag = load_dag(text, filename=filename, catalog=self._catalog)
        _refuse_what_cannot_run(dag)
        digest = version_digest(dag, self._catalog)
        now = self._clock.now()
        with self._state.transaction("deploy") as tx:
            row = tx.one(
                SQL["lock_dag"],
                {
                    "dag_id": self._ids.uuid(),
                    "org_id": org_id,
                    "name": dag.name,
                    "user_id": actor.user_id,
                    "now": now,
                },
            )
            assert row is not None  # noqa: S101  the statement always answers one row
            actor.require_deploy_right(dag.name, row.created_by, row.deploy_roles)
            params = {
                "org_id": org_id,
                "dag_id": row.dag_id,
                "from_version": row.active_dag_version_id,
                "user_id": actor.user_id,
                "now": now,
            }
            if expected_state is not None and expected_state != state_token(tx, params):
                raise PlanStale(dag=dag.name)
            result = self._apply(tx, dag, text, digest, params, concurrency)
            if result.created:
                self._read_as(tx, dag, params, actor)
            if result.created:
                self._audit.record(
                    tx, org_id, actor, "dag.deploy", dag.name, version=result.version,
                    jobs=len(dag.jobs), builds=len(result.builds), sha256=digest,
                )  # fmt: skip
        if result.created:
            self._waker.wake(Function.OUTBOX_RELAY)
            self._waker.wake(Function.DISPATCHER)
        return result

    def _apply(
        self,
        tx: Transaction,
        dag: Dag,
        text: str,
        digest: str,
        params: dict[str, Any],
        concurrency: int | None,
    ) -> DeployResult:
        names = tuple(job.name for job in dag.jobs)
        webhooks = tuple(
            job.name for job in dag.jobs if job.source and job.source.kind is SourceKind.WEBHOOK
        )
        self._refuse_taken_names(tx, dag, params)
        before = tx.one(SQL["version_of_content"], params | {"content_sha256": digest})
        under_way = tx.one(SQL["open_deploy"], params)
        if under_way is not None:
            if before is not None and before.dag_version_id == under_way.to_version:
                return DeployResult(
                    dag.name, before.number, False, names, webhooks, under_way.number,
                    under_way.status,
                )  # fmt: skip
            raise DeployUnderWay(
                f"Deploy {under_way.number} of {dag.name} is {under_way.status}; let it end, or "
                f"cancel it: `trace deploy cancel {dag.name}`.",
                dag=dag.name,
                deploy=under_way.number,
            )
        if before is not None and before.dag_version_id == params["from_version"]:
            return DeployResult(dag.name, before.number, False, names, webhooks)
        registered = Registration(
            tx, self._ids, self._catalog, org_id=params["org_id"], dag_id=params["dag_id"],
            dag=dag, now=params["now"], make_table=self._make_table,
        ).write(text, digest, params["user_id"])  # fmt: skip
        params |= {"to_version": registered.dag_version_id, "deploy_id": self._ids.uuid()}
        builds: tuple[str, ...] = ()
        if params["from_version"] is not None:
            version = {"dag_version_id": registered.dag_version_id}
            builds = tuple(each.name for each in tx.all(SQL["jobs_to_build"], version))
        status = "Building" if builds else "Draining"
        params["capacity_id"] = None
        if builds and concurrency is not None:
            params["capacity_id"] = self._build_capacity(tx, params, concurrency)
        added = tx.one(
            SQL["add_deploy"],
            params | {"kind": "deploy", "status": status, "plan": None},
        )
        if builds:
            begin_build(tx, self._ids, params)
        else:
            switch_version(tx, self._ids, Switch.of(params, dag.name, "cutover"))
        return DeployResult(
            dag.name, registered.number, True, names, webhooks,
            added.number if added else None, status, builds,
        )  # fmt: skip

    def _read_as(self, tx: Transaction, dag: Dag, params: dict[str, Any], actor: Actor) -> None:
        """Jobs read datasets of other DAGs with the rights of whoever deployed them."""
        external = sorted({dataset for dataset, _, _ in dag.external_datasets()})
        self._rights.require_inputs(tx, params["org_id"], external, actor)
        self._rights.read_as(tx, params["org_id"], params["to_version"], actor.user_id)

    def _build_capacity(self, tx: Transaction, params: dict[str, Any], concurrency: int) -> UUID:
        capacity_id = self._ids.uuid()
        tx.run(
            SQL["add_capacity"],
            params
            | {
                "capacity_id": capacity_id,
                "kind": "deploy",
                "name": "build",
                "max_running": concurrency,
                "reserved_for_live": 0,
            },
        )
        return capacity_id

    def _refuse_taken_names(self, tx: Transaction, dag: Dag, params: dict[str, Any]) -> None:
        names = [each.name for each in dag.publications]
        for row in tx.all(SQL["taken_names"], params | {"names": names}):
            raise Invalid(
                f"The dataset name {row.dataset_name} belongs to another DAG.",
                field=f"publish.{row.dataset_name}",
            )

    def rollback(
        self, org_id: OrgId, dag: str, actor: Actor, *, version: int | None = None
    ) -> RollbackResult:
        """Back to a version that was active before, code and data together; default: the last."""
        return self._rollbacks.rollback(org_id, dag, actor, version=version)

    def cancel_deploy(self, org_id: OrgId, dag: str, actor: Actor) -> int:
        """Give up a build: what is current stays, and what was built is kept for another try."""
        return self._under_way.cancel(org_id, dag, actor)

    def set_deploy_paused(self, org_id: OrgId, dag: str, actor: Actor, *, paused: bool) -> int:
        """Let a build rest, or go on; `ChecksFailed` goes on by checking again."""
        return self._under_way.set_paused(org_id, dag, actor, paused=paused)

    def pause(self, org_id: OrgId, dag: str, actor: Actor) -> None:
        self._set_paused(org_id, dag, self._clock.now(), actor)

    def resume(self, org_id: OrgId, dag: str, actor: Actor) -> None:
        self._set_paused(org_id, dag, None, actor)
        self._waker.wake(Function.OUTBOX_RELAY)

    def set_deploy_roles(
        self, org_id: OrgId, dag: str, deploy_roles: Sequence[str], actor: Actor
    ) -> None:
        """Which org roles may deploy, pause, resume and trigger the DAG, beside its creator."""
        params = {"org_id": org_id, "name": dag, "deploy_roles": sorted(set(deploy_roles))}
        with self._state.transaction("set_deploy_roles") as tx:
            # A role that is removed at the same time waits, and then finds that it is named.
            tx.one(ORG_SQL["lock_org"], params)
            row = locked_dag(tx, org_id, dag)
            if missing := [each.role for each in tx.all(SQL["missing_roles"], params)]:
                raise Invalid(
                    f"The org has no role {', '.join(missing)}; add it first.", field="roles"
                )
            tx.run(SQL["set_deploy_roles"], params | {"dag_id": row.dag_id})
            self._audit.record(
                tx, org_id, actor, "dag.deploy_roles", dag,
                roles=params["deploy_roles"], before=row.deploy_roles,
            )  # fmt: skip

    def _set_paused(
        self, org_id: OrgId, dag: str, paused_at: datetime | None, actor: Actor
    ) -> None:
        with self._state.transaction("pause") as tx:
            row = locked_dag(tx, org_id, dag)
            actor.require_deploy_right(dag, row.created_by, row.deploy_roles)
            tx.run(SQL["set_paused"], {"dag_id": row.dag_id, "paused_at": paused_at})
            action = "dag.resume" if paused_at is None else "dag.pause"
            self._audit.record(tx, org_id, actor, action, dag)
            tx.run(SQL["refresh_standing"], {"dag_id": row.dag_id})
            if paused_at is None:
                tx.run(
                    SQL["wake_dag"],
                    {
                        "org_id": org_id,
                        "dag_id": row.dag_id,
                        "now": self._clock.now(),
                        "outbox_ids": self._ids.many(RUNTIMES),
                        "wake_fanout": limits.WAKE_FANOUT,
                    },
                )


def _refuse_what_cannot_run(dag: Dag) -> None:
    """What the grammar has and this version cannot run would wait for ever."""
    for job in dag.jobs:
        if job.udf is not None:
            what = "code of users (`udf`)"
        elif job.runtime is Runtime.EMR_SERVERLESS and job.activation is Activation.SOURCE:
            what = "sources with `runtime: emr_serverless`"
        else:
            continue
        raise Invalid(
            f"Job {job.name}: this version of Trace does not run {what} yet.", job=job.name
        )
