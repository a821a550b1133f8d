"""Credentials on one machine: the folder itself, since its files need none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import Credentials, check_prefixes


class FolderCredentialIssuer:
    """`CredentialIssuer` that checks the same requests and hands out the root of the objects.

    It keeps nobody out: operators of this profile are the project's own, and run as its user.
    """

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root.expanduser().resolve()
        self._clock = clock

    def issue(
        self,
        *,
        name: str,
        read_prefixes: Sequence[str],
        write_prefixes: Sequence[str],
        lifetime: timedelta,
    ) -> Credentials:
        check_prefixes((*read_prefixes, *write_prefixes))
        return Credentials(
            root=f"{self._root.as_uri()}/",
            environment={},
            expires_at=self._clock.now() + lifetime,
        )
