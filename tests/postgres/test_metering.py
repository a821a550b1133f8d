"""Metering: max_concurrency, slots, quotas and the share of live work, all inside the claim."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

from tests.factories import CHAIN, World
from trace_core.dag.model import Runtime
from trace_core.dispatcher.service import DispatchReport
from trace_core.identity.model import SYSTEM
from trace_core.tasks.claim import Claimed, Claims, Refused
from trace_core.tasks.metering import Capacity, allowance
from trace_core.tasks.model import NotClaimed, Priority

POOL = """
worker_pools:
  rpc:
    - {name: one, env: {UPSTREAM: one}, secrets: {KEY: key_one}}
    - {name: two, env: {UPSTREAM: two}, secrets: {KEY: key_two}}
"""
LIMITED = CHAIN.replace("name: b,", "name: b, scaling: {max_concurrency: 2},")
POOLED = CHAIN.replace("name: b,", "name: b, worker_pool: rpc,") + POOL

CONTROL = """
version: 1
name: control
jobs:
  - {name: history, activation: source, runtime: dispatcher, operator: range_request,
     source: {kind: manual}, outputs: 1, update_strategy: replace}
"""


def _holders(world: World) -> int:
    return len(world.rows("SELECT 1 AS x FROM slots WHERE task_id IS NOT NULL"))


def _counters(world: World) -> list[tuple[int, int]]:
    rows = world.rows("SELECT running, running_backfill FROM capacities ORDER BY name")
    return [(row.running, row.running_backfill) for row in rows]


def test_max_concurrency_is_never_exceeded_and_a_release_wakes_the_next(world: World) -> None:
    world.deploy(LIMITED)
    world.feed(1, 2, 3)
    running = world.claim(10)
    assert len(running) == 2
    waiting = world.rows("SELECT task_id FROM ready")[0].task_id
    assert world.claims.claim_ids(world.org, [waiting], "worker-2") == [
        Refused(waiting, NotClaimed.NO_CAPACITY)
    ]
    world.clear_outbox()
    world.complete(running[0])
    assert world.pending_wakes() == ["worker"]
    assert len(world.claim(10)) == 1


def test_a_full_job_does_not_block_another(world: World) -> None:
    world.deploy(LIMITED)
    world.feed(*range(20))
    first = world.claim(10)
    assert len(first) == 2
    world.complete(first[0], events=[world.event("b", 1)])
    jobs = [world.payloads.job(claim.job_id).job["name"] for claim in world.claim(10)]
    assert sorted(jobs) == ["b", "c"]


def test_each_running_task_has_a_slot_of_its_own(world: World) -> None:
    world.deploy(POOLED)
    world.feed(1, 2, 3)
    running = world.claim(10)
    slots = [payload["slot"] for payload in world.payloads.build(running)]
    assert sorted(slot["name"] for slot in slots) == ["one", "two"]
    assert slots[0]["secrets"] == {"KEY": f"key_{slots[0]['name']}"}
    assert _holders(world) == 2


def test_slots_come_back_on_completion_failure_timeout_and_cancel(world: World) -> None:
    world.deploy(POOLED)
    world.feed(*range(10))
    world.complete(world.claim(1)[0])
    world.report(world.claim(1)[0], "Failed")
    canceled = world.claim(1)[0]
    world.admin.cancel(world.org, canceled.task_id, SYSTEM)
    assert _holders(world) == 1
    world.report(canceled, "Canceled")
    assert _holders(world) == 0
    assert len(world.claim(10)) == 2
    world.pass_time(minutes=3)
    world.reaper.run_once()
    assert _holders(world) == 0
    assert _counters(world) == [(0, 0)]


def test_racing_claims_never_hold_more_than_the_slots(world: World) -> None:
    world.deploy(POOLED)
    world.feed(*range(60))
    worst: list[int] = []
    done: list[object] = []

    def work(name: str) -> None:
        claims = Claims(world.state, world.clock, world.ids)
        while True:
            got = claims.claim(world.org, Runtime.WORKER, 3, name)
            worst.append(_holders(world))
            if not got and len(done) >= 60:
                return
            for claim in got:
                world.complete(claim)
                done.append(claim)

    threads = [threading.Thread(target=work, args=(f"w{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({claim.task_id for claim in done}) == 60  # type: ignore[attr-defined]
    assert max(worst) <= 2
    assert _counters(world) == [(0, 0)]


def test_a_yielding_source_keeps_its_slot(world: World) -> None:
    world.deploy(CHAIN.replace("name: a,", "name: a, worker_pool: rpc,") + POOL)
    source = world.claim_one()
    slot = world.payloads.build([source])[0]["slot"]["name"]
    assert world.report(source, "Yielded").status == "Yielded"
    assert _holders(world) == 1
    again = world.claim_one()
    assert world.payloads.build([again])[0]["slot"]["name"] == slot
    assert (again.attempt, again.lease_sequence) == (1, 2)
    assert _counters(world) == [(1, 0)]
    world.report(again, "Failed")
    assert _holders(world) == 0
    assert _counters(world) == [(0, 0)]


def test_a_reservation_that_lapses_gives_its_slot_back(world: World) -> None:
    world.deploy(
        POOLED.replace(
            "name: b, worker_pool: rpc, activation: reactive, runtime: worker",
            "name: b, worker_pool: rpc, activation: reactive, runtime: lambda",
        )
    )
    world.feed(1, 2, 3)
    assert len(world.claims.reserve(world.org, Runtime.LAMBDA, 10)) == 2
    assert _holders(world) == 2
    world.clear_outbox()
    world.pass_time(minutes=2)
    assert world.reaper.run_once().lapsed == 2
    assert _holders(world) == 0
    assert world.pending_wakes() != []
    assert len(world.claims.reserve(world.org, Runtime.LAMBDA, 10)) == 2


def test_backfill_leaves_the_share_of_live_work(world: World) -> None:
    def capacity(running: int, backfill: int) -> Capacity:
        return Capacity(world.ids.uuid(), 3, 1, running, backfill, None, None, 0)

    now = world.clock.now()
    assert allowance([capacity(0, 0)], Priority.BACKFILL, 10, now) == 2
    assert allowance([capacity(2, 2)], Priority.BACKFILL, 10, now) == 0
    assert allowance([capacity(2, 2)], Priority.LIVE, 10, now) == 1
    assert allowance([capacity(3, 2)], Priority.LIVE, 10, now) == 0


def test_starts_in_an_hour_are_limited_and_counted_anew_in_the_next(world: World) -> None:
    now = world.clock.now()
    full = Capacity(world.ids.uuid(), None, 0, 0, 0, 5, now - timedelta(minutes=10), 5)
    assert allowance([full], Priority.LIVE, 10, now) == 0
    assert allowance([full], Priority.LIVE, 10, now + timedelta(hours=1)) == 5


def test_an_org_with_a_quota_runs_no_more_than_it(world: World) -> None:
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=3, reserved_for_live=0, max_starts_hourly=None
    )
    world.deploy()
    world.feed(*range(10))
    assert len(world.claim(10)) == 2
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=5, reserved_for_live=0, max_starts_hourly=None
    )
    assert len(world.claim(10)) == 2


def test_a_quota_set_later_counts_what_already_runs(world: World) -> None:
    world.deploy()
    world.feed(*range(10))
    running = world.claim(3)
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=4, reserved_for_live=0, max_starts_hourly=None
    )
    assert world.claim(10) == []
    world.complete(running[0])
    world.complete(running[1])
    assert len(world.claim(10)) == 2


def test_a_raised_or_removed_quota_wakes_what_waits_for_it(world: World) -> None:
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=1, reserved_for_live=0, max_starts_hourly=None
    )
    world.deploy()
    world.feed(*range(10))
    world.clear_outbox()
    assert world.claim(10) == []
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=3, reserved_for_live=0, max_starts_hourly=None
    )
    assert world.pending_wakes() == ["worker"]
    assert len(world.claim(10)) == 2
    world.clear_outbox()
    assert world.quotas.clear_quota(world.org, SYSTEM)
    assert world.pending_wakes() == ["worker"]
    assert len(world.claim(10)) == 8


def test_a_removed_quota_is_gone_and_what_ran_under_it_ends_as_ever(world: World) -> None:
    assert not world.quotas.clear_quota(world.org, SYSTEM)
    world.deploy(LIMITED)
    world.feed(*range(10))
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=9, reserved_for_live=0, max_starts_hourly=None
    )
    running = world.claim(10)
    assert [each["running"] for each in world.quotas.counters(world.org)] == [3, 2]
    other = world.another_org()
    assert world.quotas.counters(other) == []
    assert not world.quotas.clear_quota(other, SYSTEM)
    assert world.quotas.clear_quota(world.org, SYSTEM)
    (counter,) = world.quotas.counters(world.org)
    assert (counter["kind"], counter["dag"], counter["name"]) == ("job", "chain", "b")
    for claim in running:
        assert world.complete(claim).error is None
    assert _counters(world) == [(0, 0)]
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=2, reserved_for_live=0, max_starts_hourly=None
    )
    assert len(world.claim(10)) == 1


def test_a_deploy_and_a_quota_take_turns_so_that_no_job_escapes(world: World) -> None:
    with ThreadPoolExecutor(1) as other, psycopg.connect(world.state.dsn) as quota:
        quota.execute("SELECT FROM orgs WHERE org_id = %s FOR NO KEY UPDATE", [world.org])
        deploying = other.submit(world.deploy)
        with pytest.raises(TimeoutError):
            deploying.result(timeout=0.3)
        quota.execute(
            "INSERT INTO capacities (capacity_id, org_id, kind, name, max_running)"
            " VALUES (gen_random_uuid(), %s, 'org', 'quota', 1)",
            [world.org],
        )
        quota.commit()
        deploying.result(timeout=10)
    rows = world.rows("SELECT cardinality(capacity_ids) AS counters FROM jobs")
    assert [row.counters for row in rows] == [1, 1, 1]


def test_a_claim_that_crosses_a_new_quota_is_counted(world: World) -> None:
    world.deploy()
    crossed: list[Claimed] = []
    with _at(world, "set_quota:before_commit", lambda: crossed.extend(world.claim(10))):
        _set_quota(world, 1)
    assert len(crossed) == 1
    assert _counters(world) == [(1, 0)]
    world.report(crossed[0], "Failed")
    assert _counters(world) == [(0, 0)]


def test_a_new_quota_waits_for_metered_claims_that_are_under_way_and_counts_them(
    world: World,
) -> None:
    world.deploy(LIMITED)
    world.feed(3)
    with ThreadPoolExecutor(1) as other:
        setting: list[Future[None]] = []

        def set_meanwhile() -> None:
            setting.append(other.submit(_set_quota, world, 10))
            with pytest.raises(TimeoutError):
                setting[0].result(timeout=0.3)

        with _at(world, "claim_metered:before_commit", set_meanwhile):
            (claim,) = world.claim(10)
        setting[0].result(timeout=10)
    running = [running for running, _ in _counters(world)]
    assert running == [1, 2], "the job's, and the quota with the source that runs as well"
    world.report(claim, "Failed")
    assert [running for running, _ in _counters(world)] == [0, 1]


def test_the_reaper_counts_what_a_crash_left_unknown_to_a_new_quota(world: World) -> None:
    world.deploy()
    crossing = _at(world, "set_quota:before_commit", lambda: world.claim(10))
    with crossing, _at(world, "set_quota:after_commit", _crash), pytest.raises(RuntimeError):
        _set_quota(world, 1)
    assert _counters(world) == [(0, 0)]
    for _ in range(2):
        world.reaper.run_once()
        assert _counters(world) == [(1, 0)]


def _set_quota(world: World, at_once: int) -> None:
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=at_once, reserved_for_live=0, max_starts_hourly=None
    )


def _crash() -> None:
    raise RuntimeError("crashed")


@contextmanager
def _at(world: World, point: str, act: Callable[[], object]) -> Iterator[None]:
    """Act once, at that point of a transaction, in another one."""
    before, done = world.state.crash_points, False

    def reached(name: str) -> None:
        nonlocal done
        before(name)
        if name == point and not done:
            done = True
            act()

    world.state.crash_points = reached
    try:
        yield
    finally:
        world.state.crash_points = before


def test_a_quota_counts_the_capacity_that_a_resting_source_keeps(world: World) -> None:
    world.deploy(CHAIN.replace("name: a,", "name: a, worker_pool: rpc,") + POOL)
    world.report(world.claim_one(), "Yielded", resume_after_seconds=60)
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=5, reserved_for_live=0, max_starts_hourly=None
    )
    world.pass_time(seconds=61)
    world.dispatcher.run_once()
    assert world.report(world.claim_one(), "Failed").status == "Failed"
    assert _counters(world) == [(0, 0), (0, 0)]


def test_control_work_without_capacity_does_not_wake_its_own_dispatcher(world: World) -> None:
    world.deploy(CONTROL)
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=0, reserved_for_live=0, max_starts_hourly=None
    )
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 9}, SYSTEM)
    world.outbox.finish(world.outbox.take_due(world.clock.now(), 10))
    world.pass_time(seconds=300)
    assert world.dispatcher.run_once() == DispatchReport()
    assert world.outbox.take_due(world.clock.now(), 10) == []
    world.quotas.set_quota(
        world.org, SYSTEM, max_running=None, reserved_for_live=0, max_starts_hourly=None
    )
    assert world.dispatcher.run_once().ran == 1
