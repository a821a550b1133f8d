"""Tokens to principals; one way in for each kind, none of which accepts another's token."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from trace_core.http.principal import Kind, Principal
from trace_core.kernel.errors import Unauthenticated
from trace_core.kernel.ids import OrgId

TokenCheck = Callable[[str], Principal]
"""A token to its principal; raises Unauthenticated."""

_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,16384})")

_REMEMBER_MAX = 10_000


class Authenticator:
    """Knows one check for each kind that brings a token in its header."""

    def __init__(self, checks: Mapping[Kind, TokenCheck]) -> None:
        self._checks = dict(checks)

    def principal(self, kind: Kind, headers: Mapping[str, str]) -> Principal:
        """Who sent these headers (their names in lower case), as a principal of that kind."""
        principal = self._checks[kind](_bearer(headers))
        if principal.kind is not kind:
            raise Unauthenticated
        return principal


def _bearer(headers: Mapping[str, str]) -> str:
    match = _BEARER.fullmatch(headers.get("authorization", ""))
    if match is None:
        raise Unauthenticated
    return match[1]


class RememberedWorkers:
    """Worker tokens that were found good a moment ago, by their hash.

    Each call would else read the database. A revoked token is let in until `memory` is over.
    """

    def __init__(
        self,
        org_of_worker_token: Callable[[str], OrgId],
        memory: timedelta,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._org_of_worker_token = org_of_worker_token
        self._memory = memory.total_seconds()
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[OrgId, float]] = {}
        self._lock = threading.Lock()

    def __call__(self, token: str) -> Principal:
        digest, now = hashlib.sha256(token.encode()).digest(), self._monotonic()
        with self._lock:
            known = self._known.get(digest)
        if known is None or known[1] <= now:
            # Only good tokens are remembered, so that guesses cannot fill the memory.
            known = (self._org_of_worker_token(token), now + self._memory)
            with self._lock:
                if len(self._known) >= _REMEMBER_MAX:
                    self._known.clear()
                self._known[digest] = known
        return Principal(known[0], None, Kind.WORKER)
