"""Where the public keys of the users' issuer come from."""

from __future__ import annotations

from typing import Any, Protocol


class KeySource(Protocol):
    def fetch(self) -> dict[str, Any]:
        """The issuer's JSON Web Key Set as it is now; raises `Unavailable`.

        Slow, and asked for rarely: `IssuerKeys` remembers.
        """
        ...
