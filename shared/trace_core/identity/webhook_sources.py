"""Webhook sources: an address each, and at most two valid secrets whose values are kept apart."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity import webhook_signature
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, TooLarge, Unauthenticated
from trace_core.kernel.ids import DagId, Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.secret_store import Namespace, SecretStore

SQL = Statements("trace_core.identity", "webhook_sources.sql")
_REMEMBER_MAX = 1000


@dataclass(frozen=True)
class SourceGrant:
    """A call whose signature is good: from which source, and the key of its event."""

    org_id: OrgId
    source_id: UUID
    event_key: str


@dataclass(frozen=True)
class Rotated:
    source_id: UUID
    secret: str
    """Shown once: nobody can read it again."""
    former_until: datetime | None


class WebhookSources:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, store: SecretStore) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[UUID, str] = {}

    def rotate(self, tx: Transaction, dag_id: DagId, job_name: str) -> Rotated:
        """A new secret. The one before it signs on for a day, those before that no longer."""
        now = self._clock.now()
        source = tx.one(SQL["lock_source"], {"dag_id": dag_id, "job_name": job_name})
        if source is None:
            raise NotFound
        params = {"source_id": source.source_id, "now": now}
        former_until: datetime | None = None
        for position, row in enumerate(tx.all(SQL["valid_secrets"], params)):
            expires_at = now
            if position == 0:
                expires_at = former_until = now + limits.WEBHOOK_ROTATION_GRACE
            tx.run(SQL["expire_secret"], {"secret_id": row.secret_id, "expires_at": expires_at})
        secret_id, value = self._ids.uuid(), webhook_signature.new_secret(self._ids.secret())
        tx.run(SQL["add_secret"], params | {"secret_id": secret_id})
        self._store.put(OrgId(source.org_id), Namespace.PLATFORM, _name(secret_id), value)
        return Rotated(source.source_id, value, former_until)

    def show(self, org_id: OrgId, dag: str, job_name: str) -> dict[str, Any]:
        """Its address and the times of its secrets; never a value."""
        params = {"org_id": org_id, "dag": dag, "job_name": job_name, "now": self._clock.now()}
        found = self._state.read(SQL["source_of_job"], params)
        if not found:
            raise NotFound
        source = found[0]
        secrets = self._state.read(SQL["valid_secrets"], params | {"source_id": source.source_id})
        return {
            "source_id": source.source_id,
            "path": f"/v1/hooks/{source.source_id}",
            "secrets": [
                {"created_at": row.created_at, "expires_at": row.expires_at} for row in secrets
            ],
        }

    def verify(self, source_id: str, headers: Mapping[str, str], body: bytes) -> SourceGrant:
        """Raises `Unauthenticated`, the same for an unknown source and a bad signature."""
        if len(body) > limits.WEBHOOK_BODY_MAX:
            raise TooLarge(limit=limits.WEBHOOK_BODY_MAX)
        now = self._clock.now()
        signed = webhook_signature.read(headers, now)
        try:
            wanted = UUID(source_id)
        except ValueError:
            raise Unauthenticated from None
        rows = self._state.read(SQL["secrets_of_source"], {"source_id": wanted, "now": now})
        values = [self._value(row) for row in rows]
        webhook_signature.verify(signed, body, [value for value in values if value is not None])
        return SourceGrant(OrgId(rows[0].org_id), wanted, signed.event_key)

    def _value(self, row: Row) -> str | None:
        """A secret never changes its value, so each process reads it once."""
        with self._lock:
            known = self._known.get(row.secret_id)
        if known is None:
            try:
                known = self._store.get(row.org_id, Namespace.PLATFORM, _name(row.secret_id))
            except NotFound:
                return None
            with self._lock:
                if len(self._known) >= _REMEMBER_MAX:
                    self._known.clear()
                self._known[row.secret_id] = known
        return known


def add_source(
    tx: Transaction, ids: Ids, *, org_id: OrgId, dag_id: DagId, job_name: str, now: datetime
) -> None:
    """The source of a job, in its deploy. It has no secret yet, and so lets nobody in."""
    params = {"org_id": org_id, "dag_id": dag_id, "job_name": job_name, "now": now}
    tx.run(SQL["ensure_source"], params | {"source_id": ids.token()})


def _name(secret_id: UUID) -> str:
    return f"webhook_{secret_id.hex}"
