"""What seeded schedules have found in builds and switches: each as the few steps that it takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.factories import CHAIN, World
from tests.postgres.test_rebuild import EDITED, deploys, fed, outputs_of, run_all, settle
from trace_core.deploy.statements import SQL as DEPLOY
from trace_core.identity.model import SYSTEM
from trace_core.tasks.claim import Claimed

__all__ = ["fed"]

WITHOUT_C = CHAIN[: CHAIN.index("  - {name: c")]
POOLED = CHAIN.replace(
    "jobs:\n", "worker_pools:\n  pool: [{name: one, env: {}}, {name: two, env: {}}]\njobs:\n"
).replace("activation: source,", "activation: source, worker_pool: pool,").replace(
    "{name: b,", "{name: b, worker_pool: pool,"
)  # fmt: skip
POOLED_ANEW = POOLED.replace("operator: work, source", "operator: rework, source")


def test_a_run_that_gives_up_after_its_version_is_back_goes_on_with_it(fed: Any) -> None:
    """Canceled with its version, and acknowledged only when that version was active again."""
    world, source = fed
    world.accept(source, [world.event("a", 5)])
    (old,) = world.claim(1)
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    world.deploys.rollback(world.org, "chain", SYSTEM)
    settle(world)
    assert deploys(world)[-1].status == "Draining"
    assert world.report(old, "Canceled").status == "Canceled"
    assert settle(world) == [("work", "c5"), ("work", "c5")]
    assert [row.status for row in deploys(world)] == ["Done"] * 3


def test_a_retry_of_a_replaced_job_does_not_wait_for_ever(fed: Any) -> None:
    world, source = fed
    world.accept(source, [world.event("a", 5)])
    (b,) = world.claim(1)
    world.report(b, "Failed", retryable=False)
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    assert deploys(world)[-1].status == "Done"
    world.admin.retry(world.org, b.task_id, SYSTEM)
    settle(world)
    assert world.count("ready") == 0
    # As any other task that ended with its version, it comes back with it.
    world.deploys.rollback(world.org, "chain", SYSTEM)
    assert settle(world) == [("work", "c5"), ("work", "c5")]


def sliced(world: World, source: Claimed, *cursors: int) -> None:
    """The source announces, and rests for an hour."""
    outputs = world.payloads.job(source.job_id).outputs
    events = [
        {
            "dataset_uuid": outputs[0].dataset_uuid,
            "dataset_version": outputs[0].dataset_version,
            "cursor": n,
        }
        for n in cursors
    ]
    result = world.report(source, "Yielded", events=events, resume_after_seconds=3600)
    assert result.error is None


def test_sources_that_may_not_run_give_their_slots_to_the_build(world: World) -> None:
    world.deploy(POOLED)
    source = world.claim_one()
    sliced(world, source, 0, 1)
    run_all(world)
    world.deploys.deploy(world.org, POOLED_ANEW, "chain.yaml", SYSTEM)
    world.builds.run_once()
    held = "SELECT s.name FROM slots s WHERE s.task_id IS NOT NULL"
    assert world.rows(held) == []
    (anew,) = world.claim(1)
    sliced(world, anew, 0, 1)
    # It has covered what the old one had, rests, and leaves both slots to what it announced.
    world.builds.run_once()
    world.builds.run_once()
    assert world.rows(held) == []
    assert len(world.claim(10)) == 2
    assert [row.running for row in world.rows("SELECT running FROM capacities")] == [2]


def test_a_candidate_source_goes_on_when_the_old_one_had_a_last_slice(world: World) -> None:
    world.deploy(CHAIN)
    source = world.claim_one()
    world.accept(source, [world.event("a", n) for n in range(3)])
    run_all(world)
    resourced = CHAIN.replace("operator: work, source", "operator: rework, source")
    world.deploys.deploy(world.org, resourced, "chain.yaml", SYSTEM)
    (anew,) = world.claim(1)
    sliced(world, anew, 0, 1, 2)
    run_all(world)
    world.builds.run_once()
    assert world.rows("SELECT caught_up FROM jobs WHERE operator = 'rework'")[0].caught_up
    # The old one was held in the middle of a slice, and still announces.
    world.accept(source, [world.event("a", 3)])
    world.builds.run_once()
    world.pass_time(hours=1)
    world.dispatcher.run_once()
    (anew,) = world.claim(10)
    sliced(world, anew, 3)
    sliced(world, source)
    settle(world)
    assert deploys(world)[-1].status == "Done"
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(4)]


def test_a_build_counts_what_still_runs_of_one_that_was_given_up(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM, concurrency=1)
    world.builds.run_once()
    (claim,) = world.claim(1)
    world.deploys.cancel_deploy(world.org, "chain", SYSTEM)
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM, concurrency=1)
    world.builds.run_once()
    running = "SELECT running FROM capacities ORDER BY capacity_id"
    assert [row.running for row in world.rows(running)] == [1]
    assert world.claim(10) == []
    assert world.complete(claim).error is None
    assert [row.running for row in world.rows(running)] == [0]
    assert len(world.claim(10)) == 1


def test_a_rollback_returns_to_the_last_version_whatever_the_clocks_say(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, WITHOUT_C, "chain.yaml", SYSTEM)
    world.clock.advance(timedelta(seconds=-4))  # the next host is slow
    changed = CHAIN.replace("{name: b,", "{name: b, max_attempts: 7,")
    world.deploys.deploy(world.org, changed, "chain.yaml", SYSTEM)
    world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM)
    assert world.deploys.rollback(world.org, "chain", SYSTEM).version == 3


def test_a_build_that_begins_again_is_not_whole_before_its_tasks_are_back(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    world.builds.run_once()
    world.deploys.cancel_deploy(world.org, "chain", SYSTEM)
    while world.builds.run_once().did_something:
        pass
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    # One Dispatcher looks at the build while another has not come to what was canceled.
    (deploy,) = world.state.read(DEPLOY["unended_deploys"], {})
    world.builds._fill(deploy)
    world.builds._look_at_build(deploy)
    assert deploys(world)[-1].status == "Building"
    assert len(settle(world)) == 10
    assert deploys(world)[-1].status == "Done"
