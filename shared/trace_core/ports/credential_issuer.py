"""Short-lived credentials for one attempt: what it may read and write, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from trace_core.kernel.errors import Invalid
from trace_core.ports.object_store import check_prefix


@dataclass(frozen=True)
class Credentials:
    root: str
    """Where keys begin: `s3://bucket/`, or a folder's address."""
    environment: dict[str, str] = field(repr=False)
    """The variables under which clients find them; empty where none are needed."""
    expires_at: datetime


class CredentialIssuer(Protocol):
    def issue(
        self,
        *,
        name: str,
        read_prefixes: Sequence[str],
        write_prefixes: Sequence[str],
        lifetime: timedelta,
    ) -> Credentials:
        """Raises `TooLarge` when the prefixes do not fit, `Invalid` for a prefix that is none.

        A prefix ends with a slash, so that it never covers a neighbour's key.
        """
        ...


def check_prefixes(prefixes: Iterable[str]) -> None:
    for prefix in prefixes:
        check_prefix(prefix)
        if not prefix.endswith("/") or any(sign in prefix for sign in "*?$"):
            raise Invalid("A prefix ends with a slash and has no wildcard.", prefix=prefix)
