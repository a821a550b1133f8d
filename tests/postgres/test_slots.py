"""Slots: counted once for each lease, quarantined when their provider fails, never all dead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.factories import CHAIN, World
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import NotFound
from trace_core.kernel.limits import Quarantine
from trace_core.tasks.api import Completion, EgressIn
from trace_core.tasks.claim import Claimed
from trace_core.tasks.slots import Slots

POOL = """
worker_pools:
  rpc:
    - {name: one, env: {RPC_UPSTREAM: first}, secrets: {RPC_KEY: key_one}}
    - {name: two, env: {RPC_UPSTREAM: second}, secrets: {RPC_KEY: key_two}}
    - {name: three, env: {RPC_UPSTREAM: third}, secrets: {RPC_KEY: key_three}}
"""
POOLED = CHAIN.replace("name: b,", "name: b, worker_pool: rpc,") + POOL
RULES = Quarantine(failures=2, base=timedelta(minutes=1), cap=timedelta(minutes=3))


@pytest.fixture
def slots(world: World) -> Slots:
    world.deploy(POOLED)
    world.feed(*range(200))
    return Slots(world.state, world.clock, world.ids, world.waker, RULES)


def name_of(world: World, claim: Claimed) -> str:
    return str(world.payloads.build([claim])[0]["slot"]["name"])


def ending(claim: Claimed, status: str, fault: str | None = None, **usage: int) -> Completion:
    return Completion.model_validate(
        {
            "task_id": claim.task_id, "attempt": claim.attempt, "lease_token": claim.lease_token,
            "status": status, "egress": EgressIn(fault=fault, **usage).model_dump(),
        }
    )  # fmt: skip


def end(world: World, slots: Slots, claim: Claimed, fault: str | None = None, **usage: int) -> int:
    """Report and end an attempt; how many slots went into quarantine."""
    status = "Completed" if fault is None else "Failed"
    done = slots.report(world.org, [ending(claim, status, fault, **usage)])
    world.report(claim, status)
    return done


def states(slots: Slots, world: World) -> dict[str, str]:
    return {each["slot"]: each["state"] for each in slots.list(world.org)}


def fail_until_quarantined(world: World, slots: Slots, name: str) -> None:
    """Fail whatever holds that slot until it is kept from work; others end well."""
    for _ in range(20):
        if states(slots, world)[name] == "quarantined":
            return
        for claim in world.claim(3):
            end(world, slots, claim, "rate_limited" if name_of(world, claim) == name else None)
    raise AssertionError(f"{name} was never quarantined")


def test_what_an_attempt_took_is_counted_once(world: World, slots: Slots) -> None:
    claim = world.claim_one()
    report = ending(
        claim, "Completed", requests=5, retries=2, rate_limited=1, errors=1, bytes=10, latency_ms=7
    )
    slots.report(world.org, [report])
    slots.report(world.org, [report])
    first = slots.list(world.org)[0]
    assert (first["slot"], first["upstreams"], first["state"]) == ("one", ["first"], "held")
    counted = ("requests", "retries", "rate_limited", "errors", "bytes", "latency_ms")
    assert [first[each] for each in counted] == [5, 2, 1, 1, 10, 7]
    assert "key_one" not in str(slots.list(world.org))


def test_only_whoever_holds_the_lease_is_counted(world: World, slots: Slots) -> None:
    claim = world.claim_one()
    stale = ending(claim, "Failed", "untrue", requests=5).model_copy(
        update={"lease_token": world.ids.token()}
    )
    slots.report(world.org, [stale])
    world.complete(claim)
    slots.report(world.org, [ending(claim, "Failed", "untrue", requests=5)])
    assert [each["requests"] for each in slots.list(world.org)] == [0, 0, 0]
    assert {each["failures"] for each in slots.list(world.org)} == {0}


def test_a_retry_gets_another_slot_than_the_one_that_failed(world: World, slots: Slots) -> None:
    first = world.claim_one()
    assert name_of(world, first) == "one"
    assert end(world, slots, first, "timed_out") == 0
    assert name_of(world, world.claim_one()) == "two"


def test_failures_in_a_row_lead_to_quarantine_and_work_goes_on_with_the_others(
    world: World, slots: Slots
) -> None:
    fail_until_quarantined(world, slots, "one")
    assert sorted(name_of(world, each) for each in world.claim(10)) == ["three", "two"]
    one = slots.list(world.org)[0]
    assert (one["failures"], one["last_fault"]) == (2, "rate_limited")
    assert one["quarantined_until"] == world.clock.now() + timedelta(minutes=1)
    (row,) = world.rows(
        "SELECT actor_id, target, detail FROM audit WHERE action = 'slot.quarantine'"
    )
    assert (row.actor_id, row.target) == ("system", "chain/rpc/one")
    assert row.detail["fault"] == "rate_limited"
    assert world.views.backlog().slots_quarantined == 1


def test_an_attempt_that_ends_well_clears_the_record(world: World, slots: Slots) -> None:
    for fault in ("untrue", None, "untrue", None, "untrue"):
        for claim in world.claim(3):
            end(world, slots, claim, fault if name_of(world, claim) == "one" else None)
    assert states(slots, world)["one"] == "free"
    assert slots.list(world.org)[0]["failures"] == 1


def test_an_attempt_that_fails_by_its_own_fault_says_nothing_of_the_provider(
    world: World, slots: Slots
) -> None:
    end(world, slots, world.claim_one(), "untrue")
    for claim in world.claim(3):
        slots.report(world.org, [ending(claim, "Failed")])
    assert slots.list(world.org)[0]["failures"] == 1


def test_quarantines_grow_to_a_cap_and_one_failure_is_enough_for_the_next(
    world: World, slots: Slots
) -> None:
    fail_until_quarantined(world, slots, "one")
    for minutes in (2, 3, 3):
        world.clock.advance(timedelta(minutes=4))
        claims = {name_of(world, each): each for each in world.claim(3)}
        assert end(world, slots, claims["one"], "server_error") == 1
        for name in ("two", "three"):
            end(world, slots, claims[name])
        until = slots.list(world.org)[0]["quarantined_until"]
        assert until == world.clock.now() + timedelta(minutes=minutes)


def test_when_all_are_in_quarantine_the_earliest_due_is_tried_again(
    world: World, slots: Slots
) -> None:
    for name in ("two", "one", "three"):
        fail_until_quarantined(world, slots, name)
        world.clock.advance(timedelta(seconds=5))
    assert set(states(slots, world).values()) == {"quarantined"}
    claims = world.claim(10)
    assert [name_of(world, each) for each in claims] == ["two"]
    # One at a time, and its success brings it back.
    assert world.claim(10) == []
    end(world, slots, claims[0])
    assert states(slots, world)["two"] == "free"
    assert name_of(world, world.claim_one()) == "two"


def test_a_slot_is_released_by_hand_and_wakes_what_waits(world: World, slots: Slots) -> None:
    fail_until_quarantined(world, slots, "one")
    world.claim(10)
    world.clear_outbox()
    assert slots.release(world.org, "chain", "rpc", "one", SYSTEM)
    assert world.pending_wakes() == ["worker"]
    assert name_of(world, world.claim_one()) == "one"
    assert not slots.release(world.org, "chain", "rpc", "one", SYSTEM)
    assert len(world.rows("SELECT 1 AS x FROM audit WHERE action = 'slot.release'")) == 1
    with pytest.raises(NotFound):
        slots.release(world.org, "chain", "rpc", "other", SYSTEM)


def test_a_new_key_clears_the_record(world: World, slots: Slots) -> None:
    fail_until_quarantined(world, slots, "one")
    world.deploy(POOLED.replace("key_one", "key_new"))
    assert states(slots, world)["one"] == "free"


def test_the_time_of_a_quarantine_ends_by_itself(world: World, slots: Slots) -> None:
    fail_until_quarantined(world, slots, "one")
    world.clock.advance(timedelta(seconds=60))
    assert states(slots, world)["one"] == "free"
    held: list[Any] = world.claim(10)
    assert len(held) == 3
