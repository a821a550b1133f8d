"""A build that holds live work has a share of all claims; one that holds none waits behind live."""

from __future__ import annotations

from typing import Any

from tests.factories import CHAIN, World
from tests.postgres.test_rebuild import fed
from trace_core.identity.model import SYSTEM

__all__ = ["fed"]

C = "{name: c, activation: reactive, runtime: worker, operator: "
ADDED = """
  - {name: d, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: b, output: 0}}], outputs: 1, update_strategy: replace}
"""
LIVE = 200


def order_of_claims(world: World, source: Any, text: str) -> str:
    """One letter for each claim of one task, while more live work waits than is claimed."""
    world.deploys.deploy(world.org, text, "chain.yaml", SYSTEM)
    world.builds.run_once()
    world.accept(source, [world.event("a", n) for n in range(10, 10 + LIVE)])
    jobs = {row.job_id: row.name for row in world.rows("SELECT job_id, name FROM jobs")}
    return "".join(jobs[world.claim_one().job_id] for _ in range(LIVE))


def test_a_build_that_holds_live_work_gets_on_while_live_work_never_ends(fed: Any) -> None:
    order = order_of_claims(*fed, CHAIN.replace(C + "work", C + "rework"))
    assert order.count("c") == 5
    assert 20 < order.rindex("c") < 100


def test_a_build_that_holds_nothing_waits_until_live_work_is_done(fed: Any) -> None:
    assert order_of_claims(*fed, CHAIN.rstrip("\n") + ADDED) == "b" * LIVE
