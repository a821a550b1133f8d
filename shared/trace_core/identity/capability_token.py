"""Capability tokens: what one attempt of one task may read and write, signed by the platform."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt

from trace_core.kernel.errors import Invalid, TooLarge, Unauthenticated
from trace_core.kernel.ids import DatasetVersion, JobId, LeaseToken, OrgId, TaskId
from trace_core.kernel.limits import CAPABILITY_TOKEN_CAP, CAPABILITY_TOKEN_GRACE
from trace_core.ports.clock import Clock
from trace_core.ports.token_signer import TokenSigner

_AUDIENCE = "trace-task"
_TOKEN_MAX = 16 * 1024
_CLOCK_SKEW = timedelta(seconds=30)
"""How far the issuer's clock may be ahead of ours; nobody's clock makes a token live longer."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]{1,512}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}")
_KEY_FIELDS = ("kty", "crv", "x", "y")
_CLAIMS = {
    *("iss", "aud", "sub", "iat", "nbf", "exp"),
    *("org", "job", "attempt", "lease", "inputs", "read", "write"),
}


@dataclass(frozen=True)
class InputPin:
    """One dataset version as of one commit."""

    dataset_version: DatasetVersion
    commit: int


@dataclass(frozen=True)
class TaskGrant:
    """What a capability token says."""

    org_id: OrgId
    task_id: TaskId
    attempt: int
    lease_token: LeaseToken
    job_id: JobId
    inputs: tuple[InputPin, ...]
    read_prefixes: tuple[str, ...]
    write_prefixes: tuple[str, ...]
    expires_at: datetime


def token_expiry(issued_at: datetime, timeout: timedelta) -> datetime:
    """The task's timeout and a grace for its last calls, a day at most; in whole seconds."""
    lifetime = min(timeout + CAPABILITY_TOKEN_GRACE, CAPABILITY_TOKEN_CAP)
    return (issued_at + lifetime).replace(microsecond=0)


class CapabilityTokens:
    """Issues and verifies; a token that is refused is refused without a reason."""

    def __init__(self, signer: TokenSigner, clock: Clock, issuer: str) -> None:
        self._signer = signer
        self._clock = clock
        self._issuer = issuer

    def issue(self, grant: TaskGrant) -> str:
        issued_at = int(self._clock.now().timestamp())
        expires_at = int(grant.expires_at.timestamp())
        if not 0 < expires_at - issued_at <= CAPABILITY_TOKEN_CAP.total_seconds():
            raise Invalid("A capability token lives for a day at most.", field="expires_at")
        token = self._signer.sign(
            {
                "iss": self._issuer,
                "aud": _AUDIENCE,
                "sub": str(grant.task_id),
                "iat": issued_at,
                "nbf": issued_at,
                "exp": expires_at,
                "org": str(grant.org_id),
                "job": str(grant.job_id),
                "attempt": grant.attempt,
                "lease": str(grant.lease_token),
                "inputs": [[str(pin.dataset_version), pin.commit] for pin in grant.inputs],
                "read": list(grant.read_prefixes),
                "write": list(grant.write_prefixes),
            }
        )
        if len(token) > _TOKEN_MAX:
            raise TooLarge("The task has more inputs or prefixes than its token can carry.")
        return token

    def verify(self, token: str) -> TaskGrant:
        """Raises `Unauthenticated`, and says no more than that."""
        try:
            return self._verify(token)
        except (_Refused, jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise Unauthenticated from None

    def _verify(self, token: str) -> TaskGrant:
        _require(isinstance(token, str) and len(token) <= _TOKEN_MAX)
        _require(_SHAPE.fullmatch(token) is not None)
        header, claims, _ = token.split(".")
        key = self._key(_parse(header))
        # The library checks the signature and nothing else; what it would let pass is refused here.
        jwt.PyJWS().decode(token, key, algorithms=["ES256"])
        return self._grant(_parse(claims))

    def _key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        # Nothing but these three: no other algorithm, no key of the caller's, no `crit`, no `zip`.
        _require(header.keys() == {"alg", "typ", "kid"})
        _require(header["alg"] == "ES256" and header["typ"] == "JWT")
        for key in self._signer.jwks()["keys"]:
            if key["kid"] == header["kid"] and key["kty"] == "EC" and key["crv"] == "P-256":
                return jwt.PyJWK({name: key[name] for name in _KEY_FIELDS}, algorithm="ES256")
        raise _Refused

    def _grant(self, claims: Mapping[str, Any]) -> TaskGrant:
        _require(claims.keys() == _CLAIMS)
        _require(claims["iss"] == self._issuer and claims["aud"] == _AUDIENCE)
        issued_at, not_before, expires_at = (_whole(claims[name]) for name in ("iat", "nbf", "exp"))
        now = self._clock.now().timestamp()
        latest_start = now + _CLOCK_SKEW.total_seconds()
        _require(issued_at <= latest_start and not_before <= latest_start)
        _require(issued_at <= not_before < expires_at and now < expires_at)
        _require(expires_at - issued_at <= CAPABILITY_TOKEN_CAP.total_seconds())
        return TaskGrant(
            org_id=OrgId(_uuid(claims["org"])),
            task_id=TaskId(_uuid(claims["sub"])),
            attempt=_whole(claims["attempt"]),
            lease_token=LeaseToken(_uuid(claims["lease"])),
            job_id=JobId(_uuid(claims["job"])),
            inputs=tuple(_pin(value) for value in _items(claims["inputs"])),
            read_prefixes=tuple(_text(value) for value in _items(claims["read"])),
            write_prefixes=tuple(_text(value) for value in _items(claims["write"])),
            expires_at=datetime.fromtimestamp(expires_at, UTC),
        )


class _Refused(Exception):
    """Caught before it leaves this module."""


def _require(condition: bool) -> None:
    if not condition:
        raise _Refused


def _parse(part: str) -> dict[str, Any]:
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    # One text for each token: unused bits of the last character must be zero.
    _require(urlsafe_b64encode(data).rstrip(b"=") == part.encode())
    value = json.loads(
        data.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_no_constant
    )
    _require(isinstance(value, dict))
    return dict(value)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    _require(len(found) == len(pairs))
    return found


def _no_constant(_name: str) -> None:
    raise _Refused


def _whole(value: Any) -> int:
    # A bool is an int to Python, and no number to JSON.
    _require(type(value) is int and 0 <= value < 2**53)
    return int(value)


def _text(value: Any) -> str:
    _require(type(value) is str and value != "")
    return str(value)


def _items(value: Any) -> list[Any]:
    _require(type(value) is list)
    return list(value)


def _uuid(value: Any) -> UUID:
    found = UUID(_text(value))
    # Other spellings of the same id are not what the platform issues.
    _require(str(found) == value)
    return found


def _pin(value: Any) -> InputPin:
    dataset_version, commit = _items(value)
    return InputPin(DatasetVersion(_uuid(dataset_version)), _whole(commit))
