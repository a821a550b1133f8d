"""Whether work that could run was woken, soon enough that no sweep can hide a forgotten wake-up."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.hosts import queue_name
from trace_core.kernel import limits
from trace_core.kernel.ids import OrgId

if TYPE_CHECKING:
    from tests.simulation.world import World

WAKE_WITHIN = 25.0
"""Seconds without any wake-up under way, when nothing went wrong on that path."""
REDRIVE_WITHIN = limits.SWEEP_GRACE.total_seconds() + 150.0
"""Seconds after the last fault on the path until the sweep has found the work."""
_SKEW = 12.0

Lane = tuple[str, str]


class Wakeups:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: dict[Lane, float] = {}
        self._faults: dict[Lane, float] = {}

    def path_fault(self, org: OrgId, runtime: str) -> None:
        self._faults[str(org), runtime] = self._world.seconds

    def check(self, claimable: list[tuple[str, str, float]]) -> None:
        """`claimable` lanes have ready work, capacity for it, and no wake-up in the outbox."""
        now = self._world.seconds
        still: dict[Lane, float] = {}
        for org, runtime, ready_at in claimable:
            lane = (org, runtime)
            if self._under_way(OrgId(UUID(org)), runtime):
                continue
            since = still[lane] = self._waiting.get(lane, now)
            fault = self._faults.get(lane)
            if fault is not None and fault >= ready_at - _SKEW:
                overdue = now - max(since, fault) > REDRIVE_WITHIN
            else:
                overdue = now - since > WAKE_WITHIN
            if overdue:
                what = f"ready {runtime} work of {self._world.org_name(OrgId(UUID(org)))}"
                self._world.oracle.fail(f"{what} waits without a wake-up for {now - since:.0f} s")
        self._waiting = still

    def _under_way(self, org: OrgId, runtime: str) -> bool:
        world = self._world
        if runtime == "worker":
            depth = world.queue.depth(queue_name(org))
            looking = any(w.will_look for w in world.workers if w.org_id == org)
            return bool(depth.visible or depth.in_flight or looking)
        if runtime == "dispatcher":
            return any(dispatcher.woken for dispatcher in world.dispatchers)
        return False
