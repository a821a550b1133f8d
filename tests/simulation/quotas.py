"""Quotas of orgs as the oracle knows them: from what was asked for, and from claims it was told of.

A quota that is lowered stops nobody, and one that is raised wakes nobody: the sweep does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from trace_core.kernel.ids import OrgId
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.world import World

Asked = tuple[int | None, int, int | None]
"""At once, kept for live work, started in an hour."""
RUNTIMES = ("worker", "lambda", "dispatcher")
_HOUR = 3600.0


@dataclass
class _Seen:
    """The counter of one org, as it was after the last step."""

    asked: Asked
    hour: float | None = None
    told: int = 0
    """Starts of this hour that callers were told of; those whose answer was lost come on top."""
    most: int = 0
    """As many may have started in this hour: more than the limit when that was lowered."""
    used_up: bool = False


class Quotas:
    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: dict[OrgId, list[Asked]] = {}
        self._seen: dict[str, _Seen] = {}
        self._started: Counter[str] = Counter()
        self._held: dict[str, tuple[Asked, int]] = {}
        self.ids: dict[str, str] = {}
        """The counter of each org that has a quota."""
        self._since: dict[str, float] = {}

    def asked(self, org: OrgId, quota: Asked, *, certain: bool) -> None:
        if certain:
            self._asked[org] = [quota]
        else:
            self._asked.setdefault(org, []).append(quota)

    def started(self, org: OrgId, claims: list[Claimed], kept: set[str]) -> None:
        """A source that kept its capacity did not give it back, and does not start anew."""
        self._started[str(org)] += sum(str(claim.task_id) not in kept for claim in claims)

    def age(self, org: str) -> float:
        """For how long the org has had a quota, in seconds."""
        return self._world.now().timestamp() - self._since[org]

    def saw(self, rows: list[Any]) -> None:
        for org, capacity, max_running, reserved, hourly, hour, starts in rows:
            self._saw(org, (max_running, reserved, hourly), hour, starts)
            self.ids[org] = capacity
            self._since.setdefault(org, self._world.now().timestamp())
        self._started.clear()

    def _saw(self, org: str, asked: Asked, hour: float | None, starts: int) -> None:
        world, hourly = self._world, asked[2]
        name, must = f"the quota of {world.org_name(OrgId(UUID(org)))}", world.oracle.must
        known = self._asked.get(OrgId(UUID(org)), [])
        must(asked in known, f"{name} is {asked}, asked for was {known}")
        seen = self._seen.get(org)
        if seen is None or seen.asked != asked:
            # Who steps in, and what steps were under way, is not known to the second.
            self._wakes_nobody(org)
            told = seen.told if seen is not None and seen.hour == hour else 0
            seen = self._seen[org] = _Seen(asked, hour, told, max(hourly or 0, starts))
        elif seen.hour != hour:
            passed = (hour or 0) - (seen.hour or 0)
            must(passed >= _HOUR, f"{name}: the next hour began after {passed:.0f} s")
            seen.hour, seen.told, seen.most = hour, 0, hourly or 0
        if not world.interleaved:
            seen.told += self._started[org]
        must(starts >= seen.told, f"{name} counts {starts} starts of {seen.told}")
        within = hourly is None or starts <= seen.most
        must(within, f"{name}: {starts} starts in an hour, {seen.most} allowed")
        used_up = hourly is not None and starts >= hourly
        used_up = used_up and world.now().timestamp() < (hour or 0) + _HOUR + 12
        if used_up and not seen.used_up:
            world.faults.kinds["hour_used_up"] += 1
        if seen.used_up and not used_up:
            self._wakes_nobody(org)
        seen.used_up = used_up

    def _wakes_nobody(self, org: str) -> None:
        for runtime in RUNTIMES:
            self._world.oracle.path_fault(OrgId(UUID(org)), runtime)

    def allowed_at_once(self, org: str, held: int) -> int | None:
        """The limit, or what was held already when it is less: then never one more."""
        asked = self._seen[org].asked
        before, self._held[org] = self._held.get(org), (asked, held)
        if asked[0] is None:
            return None
        return max(asked[0], before[1] if before is not None and before[0] == asked else held)
