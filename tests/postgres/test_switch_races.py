"""Whatever crosses a switch is on one side of it: no event is lost, none is routed twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.factories import World
from tests.postgres.test_rebuild import EDITED, fed, outputs_of, run_all, settle
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.tasks.api import StartRequest
from trace_core.tasks.claim import Refused
from trace_core.tasks.model import NotClaimed

__all__ = ["fed"]


def while_committing(world: World, point: str, act: Callable[[], Any]) -> threading.Thread:
    """At the named point, begin `act` in a thread and go on once it waits for a lock."""
    thread = threading.Thread(target=act)

    def pause(name: str) -> None:
        if name != point or thread.ident is not None:
            return
        thread.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            waiting = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted"
            if world.rows(waiting)[0].n or not thread.is_alive():
                return
            time.sleep(0.005)
        raise AssertionError("nobody waits")

    world.state.crash_points = pause
    return thread


@pytest.fixture
def forward(fed: Any) -> tuple[World, Any]:
    """Version 2 is active; version 1 is what a rollback returns to."""
    world, source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    return world, source


def test_an_event_that_waits_for_a_rollback_is_routed_to_the_restored_version(
    forward: tuple[World, Any],
) -> None:
    world, source = forward
    event = world.event("a", 5)
    answers: list[Any] = []
    thread = while_committing(
        world, "rollback:before_commit", lambda: answers.append(world.accept(source, [event]))
    )
    world.deploys.rollback(world.org, "chain", SYSTEM)
    thread.join(10)
    assert answers[0].tasks_made == 1
    # Nothing of it is in the version that is gone, and no gap has to bring it back.
    assert settle(world) == [("work", "c5"), ("work", "c5")]
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(6)]


def test_a_completion_that_waits_for_a_rollback_announces_to_the_restored_version(
    forward: tuple[World, Any],
) -> None:
    world, source = forward
    # The source's own slice, with its last events in the yield: the path of one by one.
    event = world.event("a", 5)
    answers: list[Any] = []

    def complete() -> None:
        answers.append(world.report(source, "Yielded", events=[event.model_dump(mode="json")]))

    thread = while_committing(world, "rollback:before_commit", complete)
    world.deploys.rollback(world.org, "chain", SYSTEM)
    thread.join(10)
    assert answers[0].status == "Yielded"
    world.pass_time(seconds=1)
    assert settle(world) == [("work", "c5"), ("work", "c5")]


def test_a_claim_that_crosses_a_rollback_is_taken_back(forward: tuple[World, Any]) -> None:
    world, source = forward
    world.accept(source, [world.event("a", 5)])
    claims: list[Any] = []
    thread = while_committing(
        world, "rollback:before_commit", lambda: claims.extend(world.claim(10))
    )
    world.deploys.rollback(world.org, "chain", SYSTEM)
    thread.join(10)
    # A claim waits for nobody: it has the task of the version that is gone.
    (claim,) = claims
    world.builds.run_once()
    assert str(world.leases.heartbeat(world.org, claim.fence).status) == "Canceled"
    assert settle(world) == [("work", "c5"), ("work", "c5")]


def test_two_rollbacks_at_once_are_one_after_the_other(forward: tuple[World, Any]) -> None:
    world, _source = forward
    answers: list[Any] = []
    thread = while_committing(
        world,
        "rollback:before_commit",
        lambda: answers.append(world.deploys.rollback(world.org, "chain", SYSTEM)),
    )
    first = world.deploys.rollback(world.org, "chain", SYSTEM)
    thread.join(10)
    assert (first.version, answers[0].version) == (1, 2)
    run_all(world)
    settle(world)
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(5)]


def test_a_reservation_of_a_replaced_version_cannot_begin(forward: tuple[World, Any]) -> None:
    world, source = forward
    fast = EDITED.replace("{name: c, activation: reactive, runtime: worker",
                          "{name: c, activation: reactive, runtime: lambda")  # fmt: skip
    world.deploys.deploy(world.org, fast, "chain.yaml", SYSTEM)
    world.accept(source, [world.event("a", 5)])
    run_all(world)
    (reserved,) = world.claims.reserve(world.org, Runtime.LAMBDA, 1)
    world.deploys.rollback(world.org, "chain", SYSTEM, version=1)
    request = StartRequest(
        task_id=reserved.task_id, start_token=reserved.start_token, runner_id="late"
    )
    answer = world.claims.start(request)
    assert isinstance(answer, Refused)
    assert answer.reason is NotClaimed.HELD
    pinned = "SELECT count(*) AS n FROM task_inputs WHERE task_id = %(task)s"
    assert world.rows(pinned, task=reserved.task_id)[0].n == 0


def test_a_task_that_ends_while_its_next_build_begins_is_counted_by_neither(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM, concurrency=1)
    world.builds.run_once()
    (claim,) = world.claim(1)
    world.deploys.cancel_deploy(world.org, "chain", SYSTEM)
    answers: list[Any] = []
    thread = while_committing(
        world, "deploy:before_commit", lambda: answers.append(world.complete(claim))
    )
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM, concurrency=1)
    thread.join(10)
    assert answers[0].error is None
    # The deploy had counted it, and it could not see the new counter. The reaper counts again.
    world.reaper.run_once()
    assert [row.running for row in world.rows("SELECT running FROM capacities")] == [0]
