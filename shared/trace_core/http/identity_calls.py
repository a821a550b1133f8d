"""The wire formats of members, roles, secrets, worker tokens and webhooks."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    RootModel,
    SecretStr,
)

from trace_core.http.pages import PageQuery
from trace_core.http.wire import Wire
from trace_core.identity.model import PlatformRole
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound

RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


def _printable(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("must be printable text without blanks at its ends")
    return value


Subject = Annotated[
    str, Field(min_length=1, max_length=limits.SUBJECT_MAX), AfterValidator(_printable)
]
Label = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]


class MemberRequest(Wire):
    subject: Subject
    role: PlatformRole
    name: Label | None = None


class MemberRole(Wire):
    role: PlatformRole


class RoleRequest(Wire):
    role: RoleName


class DeployRoles(Wire):
    roles: Annotated[list[RoleName], Field(max_length=50)]


class SecretRequest(Wire):
    value: Annotated[SecretStr, Field(min_length=1, max_length=limits.SECRET_VALUE_MAX)]


class WorkerTokenRequest(Wire):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class HookBody(RootModel[dict[str, Any]]):
    """Whatever its sender says, as one JSON object."""


class AuditQuery(PageQuery):
    actor: Subject | None = None
    action: Annotated[str, Field(pattern=r"^[a-z_]+(\.[a-z_]+)?$", max_length=100)] | None = None
    target: Label | None = None
    since: AwareDatetime | None = None


def id_in_path(text: str) -> UUID:
    """What is no id names nothing."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound from None
