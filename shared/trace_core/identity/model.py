"""Who may do what: roles, and the one who acts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from trace_core.kernel.errors import Forbidden
from trace_core.kernel.ids import UserId


class PlatformRole(StrEnum):
    """What a member may do in its org; each may do what those before it may."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def covers(self, needed: PlatformRole) -> bool:
        order = list(PlatformRole)
        return order.index(self) >= order.index(needed)


class ActorKind(StrEnum):
    USER = "user"
    SYSTEM = "system"
    """The platform itself, or whoever administers its database."""


@dataclass(frozen=True)
class Actor:
    """The one who changes something, as the audit names it."""

    kind: ActorKind
    id: str
    user_id: UserId | None = None
    platform_role: PlatformRole | None = None
    org_roles: frozenset[str] = frozenset()
    request_id: str | None = None

    def may_deploy(self, creator: UserId | None, deploy_roles: Collection[str]) -> bool:
        """Whether it may deploy, pause, resume and trigger a DAG of that creator.

        A writer who made the DAG or has one of its roles, or an administrator; the platform may.
        """
        if self.kind is ActorKind.SYSTEM:
            return True
        if self.platform_role is None or not self.platform_role.covers(PlatformRole.WRITER):
            return False
        if self.platform_role is PlatformRole.ADMIN:
            return True
        made_it = self.user_id is not None and self.user_id == creator
        return made_it or not self.org_roles.isdisjoint(deploy_roles)

    def require_deploy_right(
        self, dag: str, creator: UserId | None, deploy_roles: Collection[str]
    ) -> None:
        if not self.may_deploy(creator, deploy_roles):
            raise Forbidden(
                f"Only its creator, its deploy roles and administrators may change DAG {dag}.",
                dag=dag,
            )


SYSTEM = Actor(ActorKind.SYSTEM, "system")
