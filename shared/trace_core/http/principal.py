"""Who calls. The kinds cannot stand in for one another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trace_core.identity.capability_token import TaskGrant
from trace_core.identity.model import Actor, ActorKind, PlatformRole
from trace_core.identity.webhook_sources import SourceGrant
from trace_core.kernel.ids import OrgId, UserId
from trace_core.tasks.model import Fence


class Kind(StrEnum):
    USER = "user"
    """A person: a user token, `/v1/*`."""
    WORKER = "worker"
    """A wrapper of the platform: a worker token, `/internal/*`."""
    TASK = "task"
    """One attempt of one task: a capability token, `/v1/task/*`."""
    SOURCE = "source"
    """Somebody who calls a webhook: a signature by the secret of that source."""
    START = "start"
    """A runner that shows its one-time start token in the body."""
    NOBODY = "nobody"
    """Anybody who reaches the port: public keys and documents only."""


@dataclass(frozen=True)
class Principal:
    org_id: OrgId
    user_id: UserId | None
    kind: Kind
    fence: Fence | None = None
    """What a capability token was issued for."""
    platform_role: PlatformRole | None = None
    """Of a user, in this org."""
    org_roles: frozenset[str] = frozenset()
    grant: TaskGrant | None = None
    """What a capability token allows."""
    source: SourceGrant | None = None
    """Which source signed the call, and the key of its event."""
    request_id: str | None = None

    @property
    def actor(self) -> Actor:
        """Who the audit says it was."""
        if self.kind is Kind.USER and self.user_id is not None:
            return Actor(
                ActorKind.USER,
                str(self.user_id),
                self.user_id,
                self.platform_role,
                self.org_roles,
                self.request_id,
            )
        raise RuntimeError(f"a {self.kind} changes nothing that is audited")
