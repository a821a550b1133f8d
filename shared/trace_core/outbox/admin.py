"""What people see of an org's outbox rows, and do when the relay has given some up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.ids import Ids, OrgId
from trace_core.outbox.model import OutboxStatus
from trace_core.outbox.store import SQL
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker

_FIRST_ID = UUID(int=0)


class OutboxAdmin:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def rows(
        self,
        org_id: OrgId,
        *,
        status: OutboxStatus | None = None,
        kind: str | None = None,
        target: str | None = None,
        limit: int = 50,
        after: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The oldest first; `after` is the last id of the page before."""
        rows = self._state.read(
            SQL["list_rows"],
            {
                "org_id": org_id,
                "status": status,
                "kind": kind,
                "target": target,
                "limit": limit,
                "after": after or _FIRST_ID,
            },
        )
        return [row._asdict() for row in rows]

    def reset(
        self,
        org_id: OrgId,
        actor: Actor,
        *,
        status: OutboxStatus = OutboxStatus.FAILED,
        kind: str | None = None,
        target: str | None = None,
        outbox_ids: Sequence[UUID] | None = None,
    ) -> int:
        """Let the relay try again: what it gave up, or (Pending) what it has postponed."""
        params = {
            "org_id": org_id,
            "status": status,
            "kind": kind,
            "target": target,
            "outbox_ids": None if outbox_ids is None else list(outbox_ids),
            "now": self._clock.now(),
        }
        with self._state.transaction("outbox_reset") as tx:
            rows = tx.all(SQL["reset_rows"], params)
            if rows:
                self._audit.record(
                    tx, org_id, actor, "outbox.reset", status.value,
                    rows=len(rows), kind=kind, sent_to=target,
                )  # fmt: skip
        if rows:
            self._waker.wake(Function.OUTBOX_RELAY)
        return len(rows)
