"""Deploy: register a DAG's first version and make it active, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trace_core.dag.catalog import Catalog
from trace_core.dag.digest import content_digest
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag, Runtime, SourceKind
from trace_core.database.state import StateDatabase
from trace_core.deploy.lookup import locked_dag
from trace_core.deploy.registration import Registration
from trace_core.deploy.statements import SQL
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.identity.orgs import SQL as ORG_SQL
from trace_core.kernel import limits
from trace_core.kernel.errors import AlreadyDeployed, Invalid
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.events import RUNTIMES


@dataclass(frozen=True)
class DeployResult:
    dag: str
    version: int
    created: bool
    """False when this very definition was deployed before: nothing changed."""
    jobs: tuple[str, ...]
    webhooks: tuple[str, ...] = ()
    """The jobs that others may call, once they have a secret."""


class Deploys:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker, catalog: Catalog
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._catalog = catalog
        self._audit = Audit(state, clock, ids)

    def deploy(self, org_id: OrgId, text: str, filename: str, actor: Actor) -> DeployResult:
        dag = load_dag(text, filename=filename, catalog=self._catalog)
        _refuse_what_cannot_run(dag)
        digest = content_digest(dag)
        names = tuple(job.name for job in dag.jobs)
        webhooks = tuple(
            job.name for job in dag.jobs if job.source and job.source.kind is SourceKind.WEBHOOK
        )
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
            if row.active_dag_version_id is not None:
                active = tx.one(SQL["dag_version"], {"dag_version_id": row.active_dag_version_id})
                if active is not None and active.content_sha256 == digest:
                    return DeployResult(dag.name, active.number, False, names, webhooks)
                raise AlreadyDeployed(
                    f"DAG {dag.name} is deployed with another definition. Editing a deployed DAG "
                    "needs a plan and a rebuild, which this version of Trace does not do yet; "
                    "deploy the edit under another name.",
                    dag=dag.name,
                    version=active.number if active else None,
                )
            Registration(
                tx, self._ids, self._catalog, org_id=org_id, dag_id=row.dag_id, dag=dag, now=now
            ).write(text, digest, actor.user_id)
            self._audit.record(
                tx, org_id, actor, "dag.deploy", dag.name, version=1, jobs=len(names), sha256=digest
            )
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        return DeployResult(dag.name, 1, True, names, webhooks)

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
            tx.run(SQL["refresh_claimable"], {"dag_id": row.dag_id})
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
        elif job.runtime is Runtime.EMR_SERVERLESS:
            what = "`runtime: emr_serverless`"
        else:
            continue
        raise Invalid(
            f"Job {job.name}: this version of Trace does not run {what} yet.", job=job.name
        )
