"""How many requests a caller may make: counted in Postgres, so that all processes share a count.

Windows of a minute, each beginning anew. One statement for each request; none once this process
knows that a window is full.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import RateLimited
from trace_core.kernel.ids import OrgId, UserId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.identity", "rate_limits.sql")
_KNOWN_MAX = 10_000
_SECONDS = int(limits.RATE_WINDOW.total_seconds())


class Rate(StrEnum):
    """As what a request is counted."""

    GENERAL = "general"
    QUERY = "query"


@dataclass(frozen=True)
class Allowance:
    """Of whatever is nearest to its limit."""

    limit: int
    remaining: int
    reset_seconds: int
    """Until the next window begins."""


class RateLimits:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        allowed: limits.RequestLimits = limits.DEFAULT_REQUEST_LIMITS,
    ) -> None:
        self._state = state
        self._clock = clock
        self._allowed = allowed
        self._full: dict[UUID | tuple[UUID, Rate], datetime] = {}
        """The window in which each was found full."""
        self._lock = threading.Lock()

    def take(self, org_id: OrgId, user_id: UserId, rate: Rate = Rate.GENERAL) -> Allowance:
        """Count a request; raises `RateLimited`, and then it counts for nothing."""
        window, left = self._window()
        of_user = self._allowed.query if rate is Rate.QUERY else self._allowed.user
        of_org = self._allowed.org
        self._refuse_known((user_id, rate), window, of_user, left)
        self._refuse_known(org_id, window, of_org, left)
        (row,) = self._state.write(
            "count_request",
            SQL["count_request"],
            {
                "window": window,
                "user_id": user_id,
                "org_id": org_id,
                "rate": rate.value,
                "user_limit": of_user,
                "org_limit": of_org,
            },
        )
        if row.mine is None:
            raise self._found_full((user_id, rate), window, of_user, left)
        if row.ours is None:
            raise self._found_full(org_id, window, of_org, left)
        if of_org - row.ours < of_user - row.mine:
            return Allowance(of_org, of_org - row.ours, left)
        return Allowance(of_user, of_user - row.mine, left)

    def take_hook(self, source_id: UUID) -> Allowance:
        """Count a call of a webhook."""
        window, left = self._window()
        limit = self._allowed.hook
        self._refuse_known(source_id, window, limit, left)
        params = {"window": window, "source_id": source_id, "limit": limit}
        rows = self._state.write("count_hook", SQL["count_hook"], params)
        if not rows:
            raise self._found_full(source_id, window, limit, left)
        return Allowance(limit, limit - rows[0].requests, left)

    def _window(self) -> tuple[datetime, int]:
        """When the window of this moment began, and the seconds that are left of it."""
        at = self._clock.now().timestamp()
        began = int(at) // _SECONDS * _SECONDS
        return datetime.fromtimestamp(began, UTC), max(1, math.ceil(began + _SECONDS - at))

    def _refuse_known(
        self, counted: UUID | tuple[UUID, Rate], window: datetime, limit: int, left: int
    ) -> None:
        if self._full.get(counted) == window:
            raise _over(limit, left)

    def _found_full(
        self, counted: UUID | tuple[UUID, Rate], window: datetime, limit: int, left: int
    ) -> RateLimited:
        with self._lock:
            if len(self._full) >= _KNOWN_MAX:
                self._full.clear()
            self._full[counted] = window
        return _over(limit, left)


def forget(state: StateDatabase, now: datetime) -> None:
    """Delete the windows that are over; clocks may differ by some of them."""
    params = {"before": now - 5 * limits.RATE_WINDOW}
    state.write("forget_requests", SQL["forget_requests"], params)


def _over(limit: int, left: int) -> RateLimited:
    return RateLimited(limit=limit, retry_after_seconds=left)
