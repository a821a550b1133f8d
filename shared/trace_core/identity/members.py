"""The members of an org, their platform roles, and the roles that the org makes for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor, PlatformRole
from trace_core.identity.orgs import SQL
from trace_core.identity.user_token import Subject
from trace_core.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from trace_core.kernel.ids import Ids, OrgId, UserId
from trace_core.ports.clock import Clock


class LastAdmin(Conflict):
    """An org keeps one administrator: make somebody else one first."""

    code = "LastAdmin"


class AlreadyMember(Conflict):
    """That user is a member already; set its role instead."""

    code = "AlreadyMember"


class RoleInUse(Conflict):
    """DAGs or datasets name this role; take it out there first."""

    code = "RoleInUse"


RightsChanged = Callable[[Transaction, OrgId], object]
"""Called in the transaction that changed what a member may do."""


def _nobody_asks(_tx: Transaction, _org_id: OrgId) -> None:
    """Where nothing is derived from the rights of members."""


@dataclass(frozen=True)
class Membership:
    """One user in one org."""

    org_id: OrgId
    org: str
    user_id: UserId
    platform_role: PlatformRole
    org_roles: frozenset[str]


class Members:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        rights_changed: RightsChanged = _nobody_asks,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._rights_changed = rights_changed
        self._audit = Audit(state, clock, ids)

    def membership(self, who: Subject, org: str | None) -> Membership:
        """Of the org that was named, or of the only one there is.

        Asked with every request, so that whoever is removed is out at once.
        """
        rows = self._state.read(
            SQL["memberships_of"], {"issuer": who.issuer, "subject": who.subject}
        )
        if org is not None:
            rows = [row for row in rows if org in (row.org, str(row.org_id))]
        if not rows:
            # The same whether there is no such org or it is not this user's.
            raise Forbidden
        if len(rows) > 1:
            raise Invalid("You are a member of several orgs: name one in the header x-trace-org.")
        return _membership(rows[0])

    def list(self, org_id: OrgId) -> Sequence[dict[str, Any]]:
        return [row._asdict() for row in self._state.read(SQL["members"], {"org_id": org_id})]

    def add(
        self, org_id: OrgId, who: Subject, role: PlatformRole, name: str | None, actor: Actor
    ) -> UserId:
        params = {
            "org_id": org_id,
            "user_id": self._ids.uuid(),
            "issuer": who.issuer,
            "subject": who.subject,
            "name": name,
            "platform_role": role.value,
            "now": self._clock.now(),
        }
        with self._state.transaction("add_member") as tx:
            tx.one(SQL["lock_org"], params)
            user = tx.one(SQL["ensure_user"], params)
            assert user is not None  # noqa: S101  the statement always answers one row
            if tx.one(SQL["add_member"], params | {"user_id": user.user_id}) is None:
                raise AlreadyMember(subject=who.subject)
            # A member who comes back finds the jobs that waited for it.
            self._rights_changed(tx, org_id)
            self._audit.record(tx, org_id, actor, "member.add", who.subject, role=role.value)
        return UserId(user.user_id)

    def set_role(self, org_id: OrgId, user_id: UserId, role: PlatformRole, actor: Actor) -> None:
        params = {"org_id": org_id, "user_id": user_id, "platform_role": role.value}
        with self._state.transaction("set_role") as tx:
            member = self._locked(tx, org_id, user_id)
            if role is not PlatformRole.ADMIN:
                self._keep_an_admin(tx, org_id, member)
            tx.run(SQL["set_role"], params)
            self._rights_changed(tx, org_id)
            self._audit.record(
                tx, org_id, actor, "member.set_role", member.subject,
                role=role.value, before=member.platform_role,
            )  # fmt: skip

    def remove(self, org_id: OrgId, user_id: UserId, actor: Actor) -> None:
        with self._state.transaction("remove_member") as tx:
            member = self._locked(tx, org_id, user_id)
            self._keep_an_admin(tx, org_id, member)
            tx.run(SQL["remove_member"], {"org_id": org_id, "user_id": user_id})
            self._rights_changed(tx, org_id)
            self._audit.record(
                tx, org_id, actor, "member.remove", member.subject, before=member.platform_role
            )

    def roles(self, org_id: OrgId) -> Sequence[dict[str, Any]]:
        return [row._asdict() for row in self._state.read(SQL["roles"], {"org_id": org_id})]

    def add_role(self, org_id: OrgId, role: str, actor: Actor) -> bool:
        """Whether it is new."""
        params = {"org_id": org_id, "role": role, "now": self._clock.now()}
        with self._state.transaction("add_role") as tx:
            added = tx.run(SQL["add_role"], params) == 1
            if added:
                self._audit.record(tx, org_id, actor, "role.add", role)
        return added

    def remove_role(self, org_id: OrgId, role: str, actor: Actor) -> None:
        params = {"org_id": org_id, "role": role}
        with self._state.transaction("remove_role") as tx:
            tx.one(SQL["lock_org"], params)
            # A role that came back later would open things to people nobody thought of.
            dags = [row.name for row in tx.all(SQL["dags_of_role"], params)]
            datasets = [row.name for row in tx.all(SQL["datasets_of_role"], params)]
            if dags or datasets:
                raise RoleInUse(role=role, dags=dags, datasets=datasets)
            if tx.run(SQL["remove_role"], params) == 0:
                raise NotFound(f"No role {role}.", role=role)
            self._audit.record(tx, org_id, actor, "role.remove", role)

    def grant(self, org_id: OrgId, role: str, user_id: UserId, actor: Actor) -> None:
        params = {"org_id": org_id, "role": role, "user_id": user_id}
        with self._state.transaction("grant_role") as tx:
            member = self._locked(tx, org_id, user_id)
            if tx.one(SQL["role_exists"], params) is None:
                raise NotFound(f"No role {role}.", role=role)
            if tx.run(SQL["grant_role"], params):
                self._rights_changed(tx, org_id)
                self._audit.record(tx, org_id, actor, "role.grant", role, to=member.subject)

    def revoke(self, org_id: OrgId, role: str, user_id: UserId, actor: Actor) -> None:
        params = {"org_id": org_id, "role": role, "user_id": user_id}
        with self._state.transaction("revoke_role") as tx:
            member = self._locked(tx, org_id, user_id)
            if tx.run(SQL["revoke_role"], params) == 0:
                raise NotFound(f"{member.subject} does not have the role {role}.", role=role)
            self._rights_changed(tx, org_id)
            self._audit.record(tx, org_id, actor, "role.revoke", role, **{"from": member.subject})

    def _locked(self, tx: Transaction, org_id: OrgId, user_id: UserId) -> Row:
        """The member, with the org locked: two changes at once could leave no administrator."""
        params = {"org_id": org_id, "user_id": user_id}
        tx.one(SQL["lock_org"], params)
        member = tx.one(SQL["member"], params)
        if member is None:
            raise NotFound
        return member

    def _keep_an_admin(self, tx: Transaction, org_id: OrgId, member: Row) -> None:
        if member.platform_role != PlatformRole.ADMIN:
            return
        found = tx.one(SQL["count_admins"], {"org_id": org_id})
        if found is None or found.admins <= 1:
            raise LastAdmin


def _membership(row: Row) -> Membership:
    return Membership(
        OrgId(row.org_id),
        row.org,
        UserId(row.user_id),
        PlatformRole(row.platform_role),
        frozenset(row.org_roles),
    )
