"""Plans on the running state: they say what a deploy then does, or that there is nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import CHAIN, World
from tests.postgres.test_rebuild import EDITED, fed, settle
from trace_core.deploy.plan_model import Action
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import PlanStale

__all__ = ["fed"]


def actions(world: World, text: str) -> dict[str, Action]:
    plan = world.plans.plan(world.org, text, "chain.yaml", SYSTEM)
    return {job.name: job.action for job in plan.jobs}


def test_a_new_dag_is_all_added(world: World) -> None:
    plan = world.plans.plan(world.org, CHAIN, "chain.yaml", SYSTEM)
    assert {job.action for job in plan.jobs} == {Action.ADDED}
    world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM, expected_state=plan.state_token)


def test_the_active_definition_has_nothing_to_do(fed: Any) -> None:
    world, _ = fed
    plan = world.plans.plan(world.org, "# a comment\n" + CHAIN, "chain.yaml", SYSTEM)
    assert plan.is_empty


def test_the_plan_names_the_jobs_that_the_deploy_builds(fed: Any) -> None:
    world, _ = fed
    plan = world.plans.plan(world.org, EDITED, "chain.yaml", SYSTEM)
    named = {job.name for job in plan.jobs if job.rebuilds}
    done = world.deploys.deploy(
        world.org, EDITED, "chain.yaml", SYSTEM, expected_state=plan.state_token
    )
    assert named == set(done.builds) == {"b", "c"}
    (b,) = [job for job in plan.jobs if job.name == "b"]
    assert b.estimate is not None
    assert b.estimate.partitions == 5


def test_a_version_whose_data_exists_is_taken_up_again_with_what_it_missed(fed: Any) -> None:
    world, source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    world.accept(source, [world.event("a", n) for n in range(5, 8)])
    settle(world)
    plan = world.plans.plan(world.org, CHAIN, "chain.yaml", SYSTEM)
    found = {job.name: (job.action, job.missed) for job in plan.jobs}
    assert found["b"] == (Action.REUSED, 3)
    assert not any(job.rebuilds for job in plan.jobs)
    done = world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM)
    assert done.builds == ()
    assert sorted(settle(world)) == sorted(2 * [("work", f"c{n}") for n in range(5, 8)])


def test_a_plan_is_refused_when_the_state_has_moved_since(fed: Any) -> None:
    world, _ = fed
    plan = world.plans.plan(world.org, EDITED, "chain.yaml", SYSTEM)
    world.deploys.deploy(world.org, CHAIN + "description: else\n", "chain.yaml", SYSTEM)
    with pytest.raises(PlanStale):
        world.deploys.deploy(
            world.org, EDITED, "chain.yaml", SYSTEM, expected_state=plan.state_token
        )
    assert world.rows("SELECT count(*) AS n FROM dag_versions")[0].n == 2
