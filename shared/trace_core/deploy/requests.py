"""Requests to sources: people ask manual ones, other systems call webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_core.dag.catalog import Catalog
from trace_core.dag.model import SourceKind
from trace_core.database.state import Row, StateDatabase, Transaction, as_json
from trace_core.deploy.statements import SQL
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.identity.webhook_sources import SQL as SOURCE_SQL
from trace_core.identity.webhook_sources import SourceGrant
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.operators.api import load_operator
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker


@dataclass(frozen=True)
class Received:
    number: int
    repeated: bool
    """The same event came before; nothing was made."""


class Requests:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker, catalog: Catalog
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._catalog = catalog
        self._audit = Audit(state, clock, ids)

    def trigger(
        self, org_id: OrgId, dag: str, job: str, request: dict[str, Any], actor: Actor
    ) -> int:
        """Ask a manual source for something; answers the number of the request."""
        with self._state.transaction("trigger") as tx:
            source = self._source(tx, org_id, dag, job)
            actor.require_deploy_right(dag, source.created_by, source.deploy_roles)
            if source.source_kind != SourceKind.MANUAL:
                raise Invalid(f"Job {job} is not a manual source.", job=job)
            number = self._add(tx, org_id, source, request, user_id=actor.user_id)
            assert number is not None  # noqa: S101  without an event key nothing is in the way
            self._audit.record(tx, org_id, actor, "dag.trigger", f"{dag}.{job}", number=number)
        self._waker.wake(Function.OUTBOX_RELAY)
        return number

    def receive(self, grant: SourceGrant, request: dict[str, Any]) -> Received:
        """A signed call becomes a request, once: its id is the key of the event."""
        event: dict[str, Any] = {"source_id": grant.source_id, "event_key": grant.event_key}
        with self._state.transaction("receive") as tx:
            target = tx.one(SOURCE_SQL["target_of_source"], event | {"org_id": grant.org_id})
            if target is None:
                raise NotFound
            source = self._source(tx, grant.org_id, target.dag, target.job)
            if source.source_kind != SourceKind.WEBHOOK:
                raise NotFound
            number = self._add(tx, grant.org_id, source, request, **event)
            known = tx.one(SQL["known_event"], event) if number is None else None
        if number is None:
            assert known is not None  # noqa: S101  it was in the way
            return Received(int(known.number), repeated=True)
        self._waker.wake(Function.OUTBOX_RELAY)
        return Received(number, repeated=False)

    def _source(self, tx: Transaction, org_id: OrgId, dag: str, job: str) -> Row:
        source = tx.one(SQL["source_of_dag"], {"org_id": org_id, "dag": dag, "job": job})
        if source is None:
            raise NotFound(f"No source job {job} in an active DAG {dag}.", dag=dag, job=job)
        return source

    def _add(
        self,
        tx: Transaction,
        org_id: OrgId,
        source: Row,
        request: dict[str, Any],
        *,
        user_id: UserId | None = None,
        source_id: UUID | None = None,
        event_key: str | None = None,
    ) -> int | None:
        self._check_request(source.operator, request)
        params = {
            "org_id": org_id,
            "job_id": source.job_id,
            "runtime": source.runtime,
            "request": as_json(request),
            "user_id": user_id,
            "now": self._clock.now(),
            "trigger_id": self._ids.uuid(),
            "outbox_id": self._ids.uuid(),
            "source_id": source_id,
            "event_key": event_key,
        }
        added = tx.one(SQL["add_request"], params)
        if added is None:
            return None
        tx.run(SQL["wake_source"], params)
        return int(added.number)

    def _check_request(self, operator: str, request: dict[str, Any]) -> None:
        """What the operator would not understand is refused to whoever asks, not later."""
        spec = self._catalog.get(operator)
        if spec is not None and spec.implementation is not None:
            check = getattr(load_operator(spec.implementation), "check_request", None)
            if check is not None:
                check(request)
