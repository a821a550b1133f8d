"""Signs capability tokens: ES256 JSON Web Tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class TokenSigner(Protocol):
    def sign(self, claims: Mapping[str, Any]) -> str:
        """A compact JWS with `alg: ES256`, `typ: JWT` and the `kid` of the current key."""
        ...

    def jwks(self) -> dict[str, Any]:
        """The public keys that verify: the current one first, then retired ones still valid."""
        ...
