"""Secrets, in two namespaces that cannot stand in for one another."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from trace_core.kernel.ids import OrgId


class Namespace(StrEnum):
    USER = "user"
    """Written by members, injected into slots of worker pools."""
    PLATFORM = "platform"
    """The platform's own; never given to operators."""


class SecretStore(Protocol):
    def put(self, org_id: OrgId, namespace: Namespace, name: str, value: str) -> None: ...

    def get(self, org_id: OrgId, namespace: Namespace, name: str) -> str:
        """Raises `NotFound`, with the name and never a value."""
        ...

    def names(self, org_id: OrgId, namespace: Namespace) -> list[str]: ...

    def delete(self, org_id: OrgId, namespace: Namespace, name: str) -> None: ...
