"""Who calls. The kinds cannot stand in for one another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trace_core.kernel.errors import Forbidden
from trace_core.kernel.ids import OrgId, UserId
from trace_core.tasks.model import Fence


class PlatformRole(StrEnum):
    """What a member may do in an org."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


class Kind(StrEnum):
    USER = "user"
    """A person: a user token, `/v1/*`."""
    WORKER = "worker"
    """A wrapper of the platform: a worker token, `/internal/*`."""
    TASK = "task"
    """One attempt of one task: a capability token, `/v1/task/*`."""
    START = "start"
    """A runner that shows its one-time start token in the body."""
    NOBODY = "nobody"
    """Anybody who reaches the port: public keys only."""


@dataclass(frozen=True)
class Principal:
    org_id: OrgId
    user_id: UserId | None
    kind: Kind
    fence: Fence | None = None
    """What a capability token was issued for."""
    role: PlatformRole | None = None
    """Of a user."""

    def require_admin(self) -> None:
        if self.role is not PlatformRole.ADMIN:
            raise Forbidden("This needs the platform role admin.")
