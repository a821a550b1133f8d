"""Hints reach the workers that can follow them: those of the org whose work waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.factories import World
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.dag.model import Runtime
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import send_wakeups
from trace_core.ports.queue import QueueDepth, wake_queue
from trace_core.worker.wake_ups import QueueWakeUps

AT_ONCE = timedelta()


@pytest.fixture
def queue(world: World) -> Iterator[PgQueue]:
    queue = PgQueue(world.state, world.clock, world.ids)
    yield queue
    queue.close()


def _wake_ups(queue: PgQueue, org: OrgId) -> QueueWakeUps:
    return QueueWakeUps(queue, wake_queue(Runtime.WORKER, org))


def _drain(world: World, wake_ups: QueueWakeUps, org: OrgId) -> int:
    """What a worker of that org does: hear, claim, acknowledge."""
    claimed = 0
    while receipts := wake_ups.wait(AT_ONCE):
        claimed += len(world.claim(10, org=org))
        wake_ups.acknowledge(receipts)
    return claimed


def test_a_busy_org_takes_no_hint_of_another_and_no_sweep_is_needed(
    world: World, queue: PgQueue
) -> None:
    orgs = [world.org, world.another_org("beta"), world.another_org("gamma")]
    for org in orgs:
        world.deploy(org=org)
    relay = world.relay(worker=send_wakeups(queue, Runtime.WORKER))
    assert relay.run_once().sent == len(orgs)
    # The first org's workers look again and again, before anybody else does.
    first = _wake_ups(queue, orgs[0])
    for _ in range(20):
        _drain(world, first, orgs[0])
    for org in orgs[1:]:
        assert _drain(world, _wake_ups(queue, org), org) == 1
    world.pass_time(minutes=5)
    assert world.dispatcher.run_once().swept == 0


def test_a_hint_that_nobody_acknowledged_wakes_the_next_worker_of_the_same_org(
    world: World, queue: PgQueue
) -> None:
    world.deploy()
    world.relay(worker=send_wakeups(queue, Runtime.WORKER)).run_once()
    assert _wake_ups(queue, world.org).wait(AT_ONCE)
    assert not _wake_ups(queue, world.org).wait(AT_ONCE)
    world.pass_time(seconds=31)
    assert _drain(world, _wake_ups(queue, world.org), world.org) == 1
    assert queue.depth(wake_queue(Runtime.WORKER, world.org)) == QueueDepth(0, 0, 0)
