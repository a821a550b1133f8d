"""Secrets, in two namespaces that cannot stand in for one another."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol

from trace_core.kernel.errors import Invalid, TooLarge
from trace_core.kernel.ids import OrgId
from trace_core.kernel.limits import SECRET_VALUE_MAX

_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


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


def check_secret(name: str, value: str) -> None:
    check_secret_name(name)
    size = len(value.encode("utf-8", "surrogatepass"))
    if size == 0:
        raise Invalid("A secret has a value.", name=name)
    if size > SECRET_VALUE_MAX:
        raise TooLarge("The secret is over the limit.", name=name, limit=SECRET_VALUE_MAX)


def check_secret_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        # Not even the name: it may be a value in the wrong place.
        raise Invalid("A secret's name has 1 to 128 of a-z, 0-9 and _, and begins with a letter.")
