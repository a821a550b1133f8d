"""Capability tokens: what one attempt of one task may read and write, signed by the platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from trace_core.identity import strict_jwt
from trace_core.identity.strict_jwt import Refused, items, require, text, uuid, whole
from trace_core.kernel.errors import Invalid, TooLarge
from trace_core.kernel.ids import DatasetVersion, JobId, LeaseToken, OrgId, TaskId
from trace_core.kernel.limits import CAPABILITY_TOKEN_CAP, CAPABILITY_TOKEN_GRACE
from trace_core.ports.clock import Clock
from trace_core.ports.token_signer import TokenSigner

_AUDIENCE = "trace-task"
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
        if len(token) > strict_jwt.TOKEN_MAX:
            raise TooLarge("The task has more inputs or prefixes than its token can carry.")
        return token

    def verify(self, token: str) -> TaskGrant:
        """Raises `Unauthenticated`, and says no more than that."""
        return strict_jwt.refusing(self._verify, token)

    def _verify(self, token: str) -> TaskGrant:
        unverified = strict_jwt.read(token)
        return self._grant(unverified.verify(self._key(unverified.header), "ES256"))

    def _key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        # Nothing but these three: no other algorithm, no key of the caller's, no `crit`, no `zip`.
        require(header.keys() == {"alg", "typ", "kid"})
        require(header["alg"] == "ES256" and header["typ"] == "JWT")
        for key in self._signer.jwks()["keys"]:
            if key["kid"] == header["kid"] and key["kty"] == "EC" and key["crv"] == "P-256":
                return jwt.PyJWK({name: key[name] for name in _KEY_FIELDS}, algorithm="ES256")
        raise Refused

    def _grant(self, claims: Mapping[str, Any]) -> TaskGrant:
        require(claims.keys() == _CLAIMS)
        require(claims["iss"] == self._issuer and claims["aud"] == _AUDIENCE)
        require(whole(claims["iat"]) <= whole(claims["nbf"]))
        expires_at = strict_jwt.expiry(claims, self._clock.now(), CAPABILITY_TOKEN_CAP)
        return TaskGrant(
            org_id=OrgId(uuid(claims["org"])),
            task_id=TaskId(uuid(claims["sub"])),
            attempt=whole(claims["attempt"]),
            lease_token=LeaseToken(uuid(claims["lease"])),
            job_id=JobId(uuid(claims["job"])),
            inputs=tuple(_pin(value) for value in items(claims["inputs"])),
            read_prefixes=tuple(text(value) for value in items(claims["read"])),
            write_prefixes=tuple(text(value) for value in items(claims["write"])),
            expires_at=datetime.fromtimestamp(expires_at, UTC),
        )


def _pin(value: Any) -> InputPin:
    dataset_version, commit = items(value)
    return InputPin(DatasetVersion(uuid(dataset_version)), whole(commit))
