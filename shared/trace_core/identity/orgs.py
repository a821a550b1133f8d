"""Orgs, their members and their workers' tokens."""

from __future__ import annotations

import hashlib

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel.errors import Conflict, Unauthenticated
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.identity", "identity.sql")


class Orgs:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids

    def ensure_org(self, name: str) -> OrgId:
        params = {"org_id": self._ids.uuid(), "name": name, "now": self._clock.now()}
        return OrgId(self._state.write("ensure_org", SQL["ensure_org"], params)[0].org_id)

    def create_org(self, org_id: OrgId, name: str) -> None:
        """An org whose id was chosen elsewhere; nothing happens when it is there already."""
        params = {"org_id": org_id, "name": name, "now": self._clock.now()}
        if self._state.write("create_org", SQL["create_org"], params)[0].org_id != org_id:
            raise Conflict("The org exists under another id.", org=name)

    def ensure_member(self, org_id: OrgId, subject: str, platform_role: str) -> UserId:
        rows = self._state.write(
            "ensure_member",
            SQL["ensure_member"],
            {
                "org_id": org_id,
                "user_id": self._ids.uuid(),
                "subject": subject,
                "platform_role": platform_role,
                "now": self._clock.now(),
            },
        )
        return UserId(rows[0].user_id)

    def add_worker_token(self, org_id: OrgId, name: str, token: str) -> None:
        self._state.write(
            "add_worker_token",
            SQL["add_worker_token"],
            {
                "token_sha256": _digest(token),
                "org_id": org_id,
                "name": name,
                "now": self._clock.now(),
            },
        )

    def org_of_worker_token(self, token: str) -> OrgId:
        rows = self._state.read(SQL["org_of_worker_token"], {"token_sha256": _digest(token)})
        if not rows:
            raise Unauthenticated
        return OrgId(rows[0].org_id)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
