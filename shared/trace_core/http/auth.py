"""What callers show, to principals; one way in for each kind, none of which accepts another's.

Nothing is open unless a route says so: a kind without a check, a user without the role that the
route asks for, and a principal of another kind are all refused here, in one place.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from trace_core.http.principal import Kind, Principal
from trace_core.http.routes import Route
from trace_core.identity.members import Members
from trace_core.identity.user_token import UserTokens
from trace_core.identity.webhook_sources import WebhookSources
from trace_core.identity.worker_token import hash_token
from trace_core.kernel.errors import Forbidden, Unauthenticated
from trace_core.kernel.ids import OrgId

_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,16384})")
ORG_HEADER = "x-trace-org"

_REMEMBER_MAX = 10_000


@dataclass(frozen=True)
class Presented:
    """What a caller shows. Names of headers are in lower case."""

    headers: Mapping[str, str]
    path: Mapping[str, str]
    body: Callable[[], bytes]
    request_id: str | None = None


Check = Callable[[Presented], Principal]
"""Raises Unauthenticated, or Forbidden for somebody who is known and has no place here."""


class Authenticator:
    """Knows one check for each kind that can be recognised before its call."""

    def __init__(self, checks: Mapping[Kind, Check]) -> None:
        self._checks = dict(checks)

    def admit(self, route: Route, presented: Presented) -> Principal | None:
        """Who calls this route; None on the routes that know nobody beforehand."""
        if route.kind in (Kind.START, Kind.NOBODY):
            return None
        check = self._checks.get(route.kind)
        if check is None:
            raise Unauthenticated
        principal = check(presented)
        if principal.kind is not route.kind:
            raise Unauthenticated
        if route.kind is Kind.USER:
            has, needs = principal.platform_role, route.role
            if has is None or needs is None or not has.covers(needs):
                raise Forbidden
        return replace(principal, request_id=presented.request_id)


def bearer(check: Callable[[str], Principal]) -> Check:
    """The check of a token that comes in the header `Authorization`."""
    return lambda presented: check(_bearer(presented.headers))


def _bearer(headers: Mapping[str, str]) -> str:
    match = _BEARER.fullmatch(headers.get("authorization", ""))
    if match is None:
        raise Unauthenticated
    return match[1]


def user_check(tokens: UserTokens, members: Members) -> Check:
    """A user token, and a membership of the org that the request names."""

    def check(presented: Presented) -> Principal:
        who = tokens.verify(_bearer(presented.headers))
        found = members.membership(who, presented.headers.get(ORG_HEADER))
        return Principal(
            found.org_id,
            found.user_id,
            Kind.USER,
            platform_role=found.platform_role,
            org_roles=found.org_roles,
        )

    return check


def source_check(sources: WebhookSources) -> Check:
    """The signature of a webhook, by a secret of the source in the path."""

    def check(presented: Presented) -> Principal:
        source_id = presented.path.get("source_id", "")
        grant = sources.verify(source_id, presented.headers, presented.body())
        return Principal(grant.org_id, None, Kind.SOURCE, source=grant)

    return check


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
        digest, now = hash_token(token), self._monotonic()
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
