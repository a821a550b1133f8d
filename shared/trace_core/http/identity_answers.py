"""What the user API answers about people, roles, secrets, tokens and the audit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from trace_core.http.wire import Page, Time, Wire
from trace_core.identity.model import ActorKind, PlatformRole


class Me(Wire):
    org_id: UUID
    user_id: UUID
    role: PlatformRole
    org_roles: list[str]


class Member(Wire):
    user_id: UUID
    subject: str
    name: str | None
    role: PlatformRole
    org_roles: list[str]
    created_at: Time


class MemberPage(Page):
    members: list[Member]


class MemberAdded(Wire):
    user_id: UUID
    subject: str
    role: PlatformRole


class MemberState(Wire):
    user_id: UUID
    role: PlatformRole


class MemberRemoved(Wire):
    user_id: UUID
    removed: bool


class Role(Wire):
    role: str
    members: int
    created_at: Time


class RolePage(Page):
    roles: list[Role]


class RoleAdded(Wire):
    role: str
    added: bool = Field(description="False: the org had it already.")


class RoleRemoved(Wire):
    role: str
    removed: bool


class RoleGrant(Wire):
    role: str
    user_id: UUID
    granted: bool


class AuditEntry(Wire):
    audit_id: UUID
    at: Time
    actor_kind: ActorKind
    actor_id: str
    actor_name: str | None
    action: str
    target: str
    detail: dict[str, Any]
    request_id: str | None


class AuditPage(Page):
    entries: list[AuditEntry]


class Secret(Wire):
    """A secret without its value, which no route reads back."""

    name: str
    updated_at: Time | None
    updated_by: str | None


class SecretPage(Page):
    secrets: list[Secret]


class SecretWritten(Wire):
    name: str
    created: bool


class SecretRemoved(Wire):
    name: str
    removed: bool


class WorkerToken(Wire):
    token_id: UUID
    name: str
    valid: bool
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None = Field(description="To the hour.")
    revoked_at: Time | None


class WorkerTokenPage(Page):
    worker_tokens: list[WorkerToken]


class WorkerTokenMade(Wire):
    token_id: UUID
    name: str
    token: str = Field(description="Shown this once.")


class WorkerTokenRevoked(Wire):
    token_id: UUID
    revoked: bool


class HookSecretTimes(Wire):
    created_at: Time
    expires_at: Time | None


class Hook(Wire):
    source_id: UUID
    path: str
    secrets: list[HookSecretTimes]


class HookSecret(Wire):
    path: str
    secret: str = Field(description="Shown this once.")
    former_until: Time | None = Field(description="Until then the secret before it still signs.")
