"""User tokens: OpenID Connect JWTs of one trusted issuer, verified here and nowhere before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trace_core.identity import strict_jwt
from trace_core.identity.issuer_keys import ALGORITHMS, IssuerKeys
from trace_core.identity.strict_jwt import items, printable, require, text
from trace_core.kernel import limits
from trace_core.ports.clock import Clock

_HEADER = {"alg", "kid", "typ", "x5t", "x5t#S256"}
"""No `crit`, `zip` or `b64`, and no key or address of a key that the caller brings along."""
_TYPES = {"jwt", "at+jwt", "application/jwt", "application/at+jwt"}
_AUDIENCES_MAX = 20
_KID_MAX = 256


@dataclass(frozen=True)
class Subject:
    """Whom a user token names: a subject means nothing without its issuer."""

    issuer: str
    subject: str


class UserTokens:
    """Verifies; a token that is refused is refused without a reason."""

    def __init__(
        self,
        keys: IssuerKeys,
        clock: Clock,
        *,
        issuer: str,
        audience: str,
        known_as: str | None = None,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._issuer = issuer
        self._audience = audience
        self._known_as = known_as or issuer

    def verify(self, token: str) -> Subject:
        """Raises `Unauthenticated`, and says no more than that; `Unavailable` without any keys."""
        return strict_jwt.refusing(self._verify, token)

    def _verify(self, token: str) -> Subject:
        unverified = strict_jwt.read(token)
        header = unverified.header
        require(header.keys() <= _HEADER)
        algorithm = header.get("alg")
        require(type(algorithm) is str and algorithm in ALGORITHMS)
        if "typ" in header:
            require(text(header["typ"]).lower() in _TYPES)
        key = self._keys.key(text(header.get("kid"), _KID_MAX), str(algorithm))
        claims = unverified.verify(key, str(algorithm))
        require(claims.get("iss") == self._issuer)
        require(self._audience in _audiences(claims.get("aud")))
        require("iat" in claims and "exp" in claims)
        strict_jwt.expiry(claims, self._clock.now(), limits.USER_TOKEN_CAP)
        return Subject(self._known_as, printable(claims.get("sub"), limits.SUBJECT_MAX))


def _audiences(value: Any) -> list[str]:
    if type(value) is str:
        return [text(value)]
    found = [text(each) for each in items(value)]
    require(len(found) <= _AUDIENCES_MAX)
    return found
