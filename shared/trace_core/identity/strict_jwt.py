"""What every JSON Web Token must be before anybody believes it, and what its library lets pass.

PyJWT checks the signature and no more than that. Size, shape, canonical base64, members that stand
twice, types and times are checked here, for capability tokens and user tokens alike.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import jwt

from trace_core.kernel.errors import Unauthenticated

TOKEN_MAX = 16 * 1024
CLOCK_SKEW = timedelta(seconds=30)
"""How far the issuer's clock may be ahead of ours; nobody's clock makes a token live longer."""
_HEADER_MAX = 512
_SIGNATURE_MAX = 1024
_PART = re.compile(r"[A-Za-z0-9_-]+")
_T = TypeVar("_T")


class Refused(Exception):
    """Why, nobody is told: `refusing` turns it into `Unauthenticated`."""


def require(condition: bool) -> None:
    if not condition:
        raise Refused


def refusing(check: Callable[[str], _T], token: str) -> _T:
    """Run a check of a token; whatever is wrong with it is `Unauthenticated` and no more."""
    try:
        return check(token)
    except (Refused, jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        raise Unauthenticated from None


@dataclass(frozen=True)
class Unverified:
    """A token of the right form. Nothing in it is true before `verify`."""

    token: str
    header: Mapping[str, Any]
    _claims: str

    def verify(self, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        """The claims, once the signature is that key's under that one algorithm."""
        # The library reads the header for itself: it must see the one that was checked.
        require(self.header.get("alg") == algorithm)
        jwt.PyJWS().decode(self.token, key, algorithms=[algorithm])
        return parse(self._claims)


def read(token: str) -> Unverified:
    """Three parts of canonical base64, the first a JSON object without repeats."""
    require(type(token) is str and len(token) <= TOKEN_MAX)
    parts = token.split(".")
    require(len(parts) == 3 and all(_PART.fullmatch(part) for part in parts))
    header, claims, signature = parts
    require(len(header) <= _HEADER_MAX and len(signature) <= _SIGNATURE_MAX)
    _decode(signature)
    return Unverified(token, parse(header), claims)


def parse(part: str) -> dict[str, Any]:
    value = json.loads(
        _decode(part).decode("utf-8"),
        object_pairs_hook=_without_repeats,
        parse_constant=_no_constant,
    )
    require(isinstance(value, dict))
    return dict(value)


def _decode(part: str) -> bytes:
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    # One text for each token: unused bits of the last character must be zero.
    require(urlsafe_b64encode(data).rstrip(b"=") == part.encode())
    return data


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require(len(found) == len(pairs))
    return found


def _no_constant(_name: str) -> None:
    raise Refused


def expiry(claims: Mapping[str, Any], now: datetime, longest: timedelta) -> int:
    """When the token ends; refused before it begins, once it has ended, and if it lives too long.

    `nbf` may be absent: the token then begins when it was issued.
    """
    issued_at, expires_at = whole(claims["iat"]), whole(claims["exp"])
    not_before = whole(claims["nbf"]) if "nbf" in claims else issued_at
    latest_start = (now + CLOCK_SKEW).timestamp()
    require(issued_at <= latest_start and not_before <= latest_start)
    require(not_before < expires_at and issued_at < expires_at)
    require(now.timestamp() < expires_at)
    require(expires_at - issued_at <= longest.total_seconds())
    return expires_at


def whole(value: Any) -> int:
    # A bool is an int to Python, and no number to JSON.
    require(type(value) is int and 0 <= value < 2**53)
    return int(value)


def text(value: Any, longest: int = TOKEN_MAX) -> str:
    require(type(value) is str and 0 < len(value) <= longest)
    return str(value)


def printable(value: Any, longest: int) -> str:
    """Text that can be stored, shown and compared: no control characters, no lone surrogates."""
    found = text(value, longest)
    require(found.isprintable() and found == found.strip())
    return found


def items(value: Any) -> list[Any]:
    require(type(value) is list)
    return list(value)


def uuid(value: Any) -> UUID:
    found = UUID(text(value))
    # Other spellings of the same id are not what the platform issues.
    require(str(found) == value)
    return found
