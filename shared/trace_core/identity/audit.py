"""Who did what: rows that are written with the change they tell of, and only ever read again."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase, Transaction, as_json
from trace_core.identity.model import Actor
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.identity", "audit.sql")
_LAST_ID = UUID(int=2**128 - 1)


class Audit:
    """Callers give names, roles and counts as details; never a value that opens something."""

    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids

    def record(
        self,
        tx: Transaction,
        org_id: OrgId,
        actor: Actor,
        action: str,
        target: str,
        **detail: Any,
    ) -> None:
        """One row, in the transaction of the change."""
        tx.run(
            SQL["record"],
            {
                "audit_id": self._ids.uuid(),
                "org_id": org_id,
                "at": self._clock.now(),
                "actor_kind": actor.kind.value,
                "actor_id": actor.id,
                "user_id": actor.user_id,
                "action": action,
                "target": target,
                "detail": as_json({k: v for k, v in detail.items() if v is not None}),
                "request_id": actor.request_id,
            },
        )

    def entries(
        self,
        org_id: OrgId,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        limit: int = 50,
        before: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last id of the page before."""
        rows = self._state.read(
            SQL["entries"],
            {
                "org_id": org_id,
                "actor": actor,
                "action": action,
                "target": target,
                "since": since,
                "before": before or _LAST_ID,
                "limit": limit,
            },
        )
        return [row._asdict() for row in rows]
