"""Room for `runtime: lambda`: never more held than may run, and what is freed is used at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.factories import World
from tests.postgres.lambda_fleet import LAMBDA, Fleet, attempts_of_b, feed, held_tasks
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Busy, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import Relay, Send
from trace_core.outbox.store import OutboxRow
from trace_core.ports.waker import Function
from trace_core.tasks.api import StartRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.invoke import invoke_ready
from trace_core.tasks.room import within

TASKS = 60
_WAITERS = """
SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
 WHERE l.locktype = 'advisory' AND NOT l.granted
"""


@pytest.fixture
def lambda_world(world: World) -> World:
    world.deploy(LAMBDA)
    return world


class Invokes:
    """A runtime that keeps what it gets."""

    def __init__(self) -> None:
        self.payloads: list[Mapping[str, Any]] = []
        self.broken_for: OrgId | None = None

    def room(self) -> int:
        return 20

    def start(self, payload: Mapping[str, Any]) -> None:
        if payload["org_id"] == str(self.broken_for):
            raise Unavailable
        self.payloads.append(payload)

    def of(self, org: OrgId) -> int:
        return sum(payload["org_id"] == str(org) for payload in self.payloads)


def _send(world: World, invokes: Invokes, concurrency: int) -> Send:
    return invoke_ready(
        world.claims, world.payloads, invokes, world.jitter, concurrency=concurrency
    )


def _relay(world: World, send: Send) -> Relay:
    return world.relay(**{"lambda": send, "worker": lambda _org, _rows: None})


def _begin(world: World, payload: Mapping[str, Any]) -> Claimed:
    claim = world.claims.start(
        StartRequest(
            task_id=payload["task_id"], start_token=payload["start_token"], runner_id="runner-1"
        )
    )
    assert isinstance(claim, Claimed)
    return claim


def _drive(fleet: Fleet, steps: int = 60) -> None:
    fleet.pushed()
    fleet.begin()
    for _ in range(steps):
        fleet.step()


def test_a_backlog_waits_for_room_and_every_task_completes_at_its_first_attempt(
    lambda_world: World,
) -> None:
    feed(lambda_world, TASKS)
    fleet = Fleet(lambda_world, size=5, concurrency=5)
    _drive(fleet, steps=TASKS // 5 * 3)
    assert attempts_of_b(lambda_world) == [(1, "Completed")] * TASKS, "and as soon as possible"
    assert fleet.most_held == 5
    assert fleet.refused == 0


def test_without_a_limit_the_same_backlog_lapses_inside_lambda(lambda_world: World) -> None:
    feed(lambda_world, TASKS)
    fleet = Fleet(lambda_world, size=5, concurrency=None)
    _drive(fleet)
    assert fleet.most_held == TASKS
    assert fleet.refused > 0
    assert "Lapsed" in {outcome for _, outcome in attempts_of_b(lambda_world)}


def test_relays_take_turns_from_the_count_to_the_commit(lambda_world: World) -> None:
    feed(lambda_world, 2)
    world = lambda_world

    def reserve() -> list[Claimed]:
        return world.claims.reserve(world.org, Runtime.LAMBDA, 1, concurrency=1)

    with ThreadPoolExecutor(1) as pool:
        with world.state.transaction("test") as tx:
            assert within(tx, Runtime.LAMBDA, 1, 20) == 1
            other = pool.submit(reserve)
            give_up_at = time.monotonic() + 10
            while not world.rows(_WAITERS):
                assert not other.done(), "it did not wait"
                assert time.monotonic() < give_up_at
            assert world.claims.reserve(world.org, Runtime.LAMBDA, 1), "as this one would, later"
        with pytest.raises(Busy):
            other.result()
    assert held_tasks(world) == 1


def test_what_waits_for_room_is_one_row_that_is_neither_late_nor_a_retry(
    lambda_world: World,
) -> None:
    world = lambda_world
    feed(world, 2)
    for cursor in range(10, 13):
        world.pass_time(days=2)
        world.dispatcher.run_once()
        (source,) = world.claim()
        world.accept(source, [world.event("a", cursor)])
        world.report(source, "Yielded", resume_after_seconds=86_400)
    assert world.pending_wakes().count("lambda") == 4
    relay = _relay(world, _send(world, Invokes(), 1))
    report = relay.run_once()
    assert (report.waiting, report.postponed, report.failed) == (1, 0, 0)
    assert world.pending_wakes() == ["lambda"]
    for _ in range(25):
        world.pass_time(minutes=1)
        assert relay.run_once().waiting == 1
    (row,) = world.rows("SELECT attempts, status FROM outbox")
    assert (row.attempts, row.status) == (0, "Pending")
    assert world.views.backlog().oldest_pending_at == world.clock.now()
    assert held_tasks(world) == 1


def _completed(world: World, payload: Mapping[str, Any]) -> None:
    assert world.complete(_begin(world, payload)).status == "Completed"


def _failed(world: World, payload: Mapping[str, Any]) -> None:
    assert world.report(_begin(world, payload), "Failed", retryable=False).status == "Failed"


def _reaped(world: World, payload: Mapping[str, Any]) -> None:
    _begin(world, payload)
    world.pass_time(minutes=3)
    assert world.reaper.run_once().reaped == 1


def _lapsed(world: World, _payload: Mapping[str, Any]) -> None:
    world.pass_time(minutes=2)
    assert world.reaper.run_once().lapsed == 1


def _canceled(world: World, payload: Mapping[str, Any]) -> None:
    (row,) = world.rows("SELECT task_id FROM leases WHERE start_token IS NOT NULL")
    assert world.admin.cancel(world.org, row.task_id, SYSTEM) == "Canceled"


def _cancel_acknowledged(world: World, payload: Mapping[str, Any]) -> None:
    claim = _begin(world, payload)
    assert world.admin.cancel(world.org, claim.task_id, SYSTEM) == "Running"
    assert world.report(claim, "Canceled").status == "Canceled"


def _completed_late(world: World, payload: Mapping[str, Any]) -> None:
    """The attempt was given up and the task reserved again, when the report comes after all."""
    claim = _begin(world, payload)
    world.pass_time(minutes=3)
    world.reaper.run_once()
    world.pass_time(minutes=2)
    world.dispatcher.run_once()
    assert world.claims.reserve(world.org, Runtime.LAMBDA, 1, concurrency=1)
    world.waker.woken.clear()
    assert world.complete(claim).status == "Completed"


@pytest.mark.parametrize(
    "end",
    [_completed, _failed, _reaped, _lapsed, _canceled, _cancel_acknowledged, _completed_late],
)
def test_freed_room_wakes_the_relay_which_finds_the_row_that_waits(
    lambda_world: World, end: Any
) -> None:
    world, invokes = lambda_world, Invokes()
    feed(world, 3)
    relay = _relay(world, _send(world, invokes, 1))
    relay.run_once()
    (first,) = invokes.payloads
    world.waker.woken.clear()
    end(world, first)
    assert world.waker.woken == [Function.OUTBOX_RELAY]
    relay.run_once()
    assert len(invokes.payloads) == 2
    assert held_tasks(world) == 1


def test_a_task_that_a_worker_claimed_frees_no_room_and_wakes_nobody(chain: World) -> None:
    feed(chain, 1)
    chain.waker.woken.clear()
    assert chain.complete(chain.claim_one()).status == "Completed"
    assert chain.waker.woken == []


def test_room_that_is_freed_while_a_relay_holds_the_row_is_not_missed(lambda_world: World) -> None:
    world, invokes = lambda_world, Invokes()
    feed(world, 2)
    send = _send(world, invokes, 1)
    _relay(world, send).run_once()
    second = _relay(world, send)

    def crossed(org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        try:
            send(org_id, rows)
        except Busy:
            if len(invokes.payloads) == 1:
                # It has seen that there is no room, and has not put the row back yet.
                _completed(world, invokes.payloads[0])
                assert second.run_once().sent == 0, "nothing to find for whoever was woken"
            raise

    _relay(world, crossed).run_once()
    assert len(invokes.payloads) == 2


@pytest.mark.parametrize(("concurrency", "most"), [(1, 20), (2, 16), (5, 25)])
def test_a_second_org_gets_its_share_although_the_first_has_a_backlog(
    lambda_world: World, concurrency: int, most: int
) -> None:
    world, other = lambda_world, lambda_world.another_org()
    world.deploy(LAMBDA, other)
    feed(world, 30)
    # One relay, so that chance is the same in every run.
    fleet = Fleet(world, size=concurrency, concurrency=concurrency, relays=1)
    _drive(fleet, steps=2)
    feed(world, 10, other)
    _drive(fleet, steps=3 * 40)
    assert len(fleet.completed) == 40
    # The first org has a few before the other comes, and then they share until the other is done.
    shared = len(fleet.completed) - fleet.completed[::-1].index(other)
    assert fleet.completed[:shared].count(world.org) <= most
    assert attempts_of_b(world) == [(1, "Completed")] * 30
    assert attempts_of_b(world, other) == [(1, "Completed")] * 10
    assert fleet.most_held == concurrency


def test_an_org_that_may_not_run_more_leaves_its_room_to_others(lambda_world: World) -> None:
    world, invokes, other = lambda_world, Invokes(), lambda_world.another_org()
    world.deploy(LAMBDA.replace("name: b,", "name: b, scaling: {max_concurrency: 1},"), other)
    feed(world, 10)
    feed(world, 10, other)
    _relay(world, _send(world, invokes, 5)).run_until_idle(timedelta(seconds=45))
    assert (invokes.of(world.org), invokes.of(other)) == (4, 1)
    assert held_tasks(world) == 5


def test_what_cannot_be_handed_over_for_one_org_holds_back_no_other(lambda_world: World) -> None:
    world, invokes, other = lambda_world, Invokes(), lambda_world.another_org()
    world.deploy(LAMBDA, other)
    invokes.broken_for = world.org
    feed(world, 1)
    feed(world, 3, other)
    world.state.write("test", "DELETE FROM outbox WHERE org_id = %(org)s", {"org": world.org})
    report = _relay(world, _send(world, invokes, 5)).run_once()
    assert (report.sent, report.postponed, report.failed) == (2, 0, 0)
    assert invokes.of(other) == 3
