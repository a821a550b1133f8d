"""An OpenID Connect issuer for one machine: whoever may read its key file may be any user.

It stands in for a real issuer where there is none, so that nobody needs a login to begin. It is
part of the profile `lite` only.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid
from trace_core.ports.clock import Clock

NAME = "development"
"""What its users' issuer is called in the database: its address has a port that may change."""
_JWKS = "/jwks.json"


class DevelopmentIssuer:
    """Mints user tokens, and is a `KeySource` for them without a detour through its own server."""

    def __init__(self, signer: KeyFileSigner, clock: Clock, url: str, audience: str) -> None:
        self._signer = signer
        self._clock = clock
        self._url = url
        self._audience = audience

    def mint(self, subject: str, lifetime: timedelta) -> str:
        if not timedelta(seconds=1) <= lifetime <= limits.USER_TOKEN_CAP:
            raise Invalid("A user token lives for a second at least and for a day at most.")
        if not subject.isprintable() or not 0 < len(subject.strip()) <= limits.SUBJECT_MAX:
            raise Invalid("A user's name is printable text.")
        issued_at = int(self._clock.now().timestamp())
        return self._signer.sign(
            {
                "iss": self._url,
                "aud": self._audience,
                "sub": subject.strip(),
                "iat": issued_at,
                "exp": issued_at + int(lifetime.total_seconds()),
            }
        )

    def fetch(self) -> dict[str, Any]:
        return self._signer.jwks()

    def handler(self, event: dict[str, Any], _context: Any) -> dict[str, Any]:
        """Discovery and keys over HTTP, for whoever verifies tokens elsewhere on this machine."""
        documents = {
            "/.well-known/openid-configuration": self._discovery,
            _JWKS: self.fetch,
        }
        found = documents.get(event["path"]) if event["httpMethod"] == "GET" else None
        body = found() if found else {"error": {"code": "NotFound"}}
        return {
            "statusCode": 200 if found else 404,
            "multiValueHeaders": {"Content-Type": ["application/json"]},
            "body": json.dumps(body),
        }

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self._url,
            "jwks_uri": self._url + _JWKS,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
