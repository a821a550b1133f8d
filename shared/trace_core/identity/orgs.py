"""Orgs, and the first administrator of each: who adds all the others."""

from __future__ import annotations

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.identity.user_token import Subject
from trace_core.kernel.errors import Conflict
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.identity", "identity.sql")


class Orgs:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._audit = Audit(state, clock, ids)

    def ensure_org(self, name: str) -> OrgId:
        params = {"org_id": self._ids.uuid(), "name": name, "now": self._clock.now()}
        with self._state.transaction("ensure_org") as tx:
            made = tx.one(SQL["add_org"], params)
            if made is not None:
                self._audit.record(tx, made.org_id, SYSTEM, "org.create", name)
            found = made or tx.one(SQL["org_by_name"], params)
        assert found is not None  # noqa: S101  made or there
        return OrgId(found.org_id)

    def create_org(self, org_id: OrgId, name: str) -> None:
        """An org whose id was chosen elsewhere; nothing happens when it is there already."""
        params = {"org_id": org_id, "name": name, "now": self._clock.now()}
        with self._state.transaction("create_org") as tx:
            if tx.one(SQL["create_org"], params) is not None:
                self._audit.record(tx, org_id, SYSTEM, "org.create", name)
                return
            found = tx.one(SQL["org_by_name"], params)
        if found is None or found.org_id != org_id:
            raise Conflict("The org has another id, or the id another name.", org=name)

    def first_admin(self, org_id: OrgId, who: Subject, name: str | None = None) -> UserId | None:
        """Make somebody the administrator of an org that has none; None when it has one.

        For whoever may write to the database. An org that has an administrator is changed by that
        administrator alone, through the API.
        """
        params = {
            "org_id": org_id,
            "user_id": self._ids.uuid(),
            "issuer": who.issuer,
            "subject": who.subject,
            "name": name,
            "platform_role": PlatformRole.ADMIN.value,
            "now": self._clock.now(),
        }
        with self._state.transaction("first_admin") as tx:
            tx.one(SQL["lock_org"], params)
            found = tx.one(SQL["count_admins"], params)
            if found is None or found.admins:
                return None
            user = tx.one(SQL["ensure_user"], params)
            assert user is not None  # noqa: S101  the statement always answers one row
            tx.run(SQL["put_member"], params | {"user_id": user.user_id})
            self._audit.record(
                tx, org_id, SYSTEM, "member.add", who.subject, role=PlatformRole.ADMIN.value
            )
        return UserId(user.user_id)
