"""Who owns an org: sets its quota, and deploys a DAG for the first time while others run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.actors import Actor
from tests.simulation.faults import Crash
from tests.simulation.quotas import Asked
from tests.simulation.shapes import LATE
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import OrgId

if TYPE_CHECKING:
    from tests.simulation.world import World

_WHOLE = {"active": True, "versions": 1, "jobs": 2, "slots": 1, "datasets": 2, "routes": 1,
          "sources": 1}  # fmt: skip
"""What a deploy of `LATE` leaves."""
_IN_THE_END: Asked = (None, 0, 30)
"""Nobody waits for a share any more; the hour still has to pass."""
_WITH_BUILDS: Asked = (None, 0, 90)
"""There is more to do where a DAG is edited."""


class Owner(Actor):
    def __init__(self, world: World) -> None:
        super().__init__(world, "owner")
        self._metered: set[OrgId] = set()
        self._deploys: dict[OrgId, bool] = {}
        """Orgs where the late DAG is wanted, and whether a deploy of it was answered."""

    def begin(self) -> None:
        world, rng = self.world, self.world.rng
        if rng.random() < 0.35:
            world.later(rng.uniform(0, 90), self, "sets a quota", self._act)
        if rng.random() < 0.3:
            org = rng.choice(world.orgs)
            self._deploys[org] = False
            world.later(rng.uniform(2, 90), self, "deploys", lambda: self._deploy(org))

    # Quotas --------------------------------------------------------------------------------------

    def _act(self) -> str | None:
        world, rng = self.world, self.world.rng
        if world.draining:
            return None
        world.later(rng.expovariate(1 / 40), self, "sets a quota", self._act)
        org = rng.choice(world.orgs)
        quota = (rng.choice((1, 2, 3, 6, None)), rng.choice((0, 1)), rng.choice((5, 12, 30, None)))
        world.faults.kinds["quota_set"] += 1
        return self._set(org, quota)

    def _set(self, org: OrgId, quota: Asked) -> str:
        max_running, reserved, hourly = quota
        self._metered.add(org)
        self.world.oracle.quotas.asked(org, quota, certain=False)
        self.world.any_host().quotas.set_quota(
            org,
            SYSTEM,
            max_running=max_running,
            reserved_for_live=reserved,
            max_starts_hourly=hourly,
        )
        self.world.oracle.quotas.asked(org, quota, certain=True)
        return f"{max_running} at once, {reserved} for live work, {hourly} in an hour"

    # First deploys -------------------------------------------------------------------------------

    def _deploy(self, org: OrgId) -> str:
        """Tried again until it is answered, as people do after an error."""
        world = self.world
        was_there = self._is_whole(org)
        try:
            result = world.any_host().deploys.deploy(org, LATE, "late.yaml", SYSTEM)
        except (Crash, Unavailable):
            world.faults.kinds["first_deploy_failed"] += 1
            self._is_whole(org)
            world.later(world.rng.uniform(1, 30), self, "deploys", lambda: self._deploy(org))
            raise
        world.oracle.must(self._is_whole(org), "a deploy was answered and is not there")
        world.oracle.must(result.created != was_there, "a deploy misjudged what was there")
        world.faults.kinds["first_deploy"] += 1
        self._deploys[org] = True
        return "late" if result.created else "late, which was there"

    def _is_whole(self, org: OrgId) -> bool:
        """Whether the DAG is there; half of it must never be."""
        found = [row for row in self.world.state.look("late_dags") if row.org_id == org]
        for row in found:
            parts = {name: getattr(row, name) for name in _WHOLE}
            self.world.oracle.must(parts == _WHOLE, f"half a deploy: {parts}")
        if found:
            self.world.learn_jobs()
        return bool(found)

    def put_right(self) -> None:
        for org in sorted(self._metered):
            self._set(org, _WITH_BUILDS if self.world.versions.edited else _IN_THE_END)
        for org, answered in self._deploys.items():
            if not answered:
                self._deploy(org)
