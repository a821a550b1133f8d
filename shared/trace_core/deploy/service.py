"""Deploy: register a DAG's first version and make it active, in one transaction."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag, Runtime, SourceKind
from trace_core.database.state import StateDatabase, as_json
from trace_core.deploy.registration import Registration
from trace_core.deploy.statements import SQL
from trace_core.kernel import limits
from trace_core.kernel.errors import AlreadyDeployed, Invalid, NotFound
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.operators.api import load_operator
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


def content_digest(dag: Dag) -> str:
    """Of what the file means: comments, spaces and the order of keys do not count."""
    content = {
        field.name: getattr(dag, field.name)
        for field in dataclasses.fields(dag)
        if not field.name.startswith("_")
    }
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"": type(value).__name__, **fields}
    return dict(value) if hasattr(value, "keys") else str(value)


class Deploys:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker, catalog: Catalog
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._catalog = catalog

    def deploy(
        self, org_id: OrgId, text: str, filename: str, user_id: UserId | None = None
    ) -> DeployResult:
        dag = load_dag(text, filename=filename, catalog=self._catalog)
        _refuse_what_cannot_run(dag)
        digest = content_digest(dag)
        names = tuple(job.name for job in dag.jobs)
        now = self._clock.now()
        with self._state.transaction("deploy") as tx:
            row = tx.one(
                SQL["lock_dag"],
                {
                    "dag_id": self._ids.uuid(),
                    "org_id": org_id,
                    "name": dag.name,
                    "user_id": user_id,
                    "now": now,
                },
            )
            assert row is not None  # noqa: S101  the statement always answers one row
            if row.active_dag_version_id is not None:
                active = tx.one(SQL["dag_version"], {"dag_version_id": row.active_dag_version_id})
                if active is not None and active.content_sha256 == digest:
                    return DeployResult(dag.name, active.number, False, names)
                raise AlreadyDeployed(
                    f"DAG {dag.name} is deployed with another definition. Editing a deployed DAG "
                    "needs a plan and a rebuild, which this version of Trace does not do yet; "
                    "deploy the edit under another name.",
                    dag=dag.name,
                    version=active.number if active else None,
                )
            Registration(
                tx, self._ids, self._catalog, org_id=org_id, dag_id=row.dag_id, dag=dag, now=now
            ).write(text, digest, user_id)
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        return DeployResult(dag.name, 1, True, names)

    def pause(self, org_id: OrgId, dag: str) -> None:
        self._set_paused(org_id, dag, self._clock.now())

    def resume(self, org_id: OrgId, dag: str) -> None:
        self._set_paused(org_id, dag, None)
        self._waker.wake(Function.OUTBOX_RELAY)

    def trigger(
        self,
        org_id: OrgId,
        dag: str,
        job: str,
        request: dict[str, Any],
        user_id: UserId | None = None,
    ) -> int:
        """Ask a manual source for something; answers the number of the request."""
        now = self._clock.now()
        with self._state.transaction("trigger") as tx:
            source = tx.one(SQL["source_of_dag"], {"org_id": org_id, "dag": dag, "job": job})
            if source is None:
                raise NotFound(f"No source job {job} in an active DAG {dag}.", dag=dag, job=job)
            if source.source_kind != SourceKind.MANUAL:
                raise Invalid(f"Job {job} is not a manual source.", job=job)
            self._check_request(source.operator, request)
            params = {
                "org_id": org_id,
                "job_id": source.job_id,
                "runtime": source.runtime,
                "request": as_json(request),
                "user_id": user_id,
                "now": now,
                "trigger_id": self._ids.uuid(),
                "outbox_id": self._ids.uuid(),
            }
            number = tx.one(SQL["add_request"], params)
            tx.run(SQL["wake_source"], params)
        self._waker.wake(Function.OUTBOX_RELAY)
        assert number is not None  # noqa: S101  the statement always answers one row
        return int(number.number)

    def _check_request(self, operator: str, request: dict[str, Any]) -> None:
        """What the operator would not understand is refused to whoever asks, not later."""
        spec = self._catalog.get(operator)
        if spec is not None and spec.implementation is not None:
            check = getattr(load_operator(spec.implementation), "check_request", None)
            if check is not None:
                check(request)

    def _set_paused(self, org_id: OrgId, dag: str, paused_at: datetime | None) -> None:
        with self._state.transaction("pause") as tx:
            row = tx.one(SQL["set_paused"], {"org_id": org_id, "name": dag, "paused_at": paused_at})
            if row is None:
                raise NotFound(f"No DAG {dag}.", dag=dag)
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
        elif job.source is not None and job.source.kind is SourceKind.WEBHOOK:
            what = "`source: {kind: webhook}`"
        else:
            continue
        raise Invalid(
            f"Job {job.name}: this version of Trace does not run {what} yet.", job=job.name
        )
