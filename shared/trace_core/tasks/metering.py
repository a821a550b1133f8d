"""How many tasks of a job may start now, given the counters that meter it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from trace_core.tasks.model import Priority

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Capacity:
    """One counter: a job's max_concurrency, a worker pool, an org's quota."""

    capacity_id: UUID
    max_running: int | None
    reserved_for_live: int
    running: int
    running_backfill: int
    max_starts_hourly: int | None
    hour_started_at: datetime | None
    starts_this_hour: int

    def free(self, priority: Priority, now: datetime) -> int | None:
        """How many more may start; None is no limit. Backfill leaves the share of live work."""
        limits: list[int] = []
        if self.max_running is not None:
            limits.append(self.max_running - self.running)
            if priority is Priority.BACKFILL:
                # The share of live work is never all: a pool of one still serves backfill.
                share = min(self.reserved_for_live, max(self.max_running - 1, 0))
                limits.append(self.max_running - share - self.running_backfill)
        if self.max_starts_hourly is not None:
            same_hour = self.hour_started_at is not None and self.hour_started_at > now - _HOUR
            limits.append(self.max_starts_hourly - (self.starts_this_hour if same_hour else 0))
        return max(min(limits), 0) if limits else None


def allowance(capacities: Iterable[Capacity], priority: Priority, limit: int, now: datetime) -> int:
    """The smallest of what is asked for and what each counter leaves."""
    free = (capacity.free(priority, now) for capacity in capacities)
    return min([limit, *(count for count in free if count is not None)])
