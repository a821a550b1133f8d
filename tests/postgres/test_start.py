"""Reservations: the exchange of a start token, duplicate invokes, lapses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import CHAIN, World
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Unavailable
from trace_core.outbox.relay import Send
from trace_core.tasks.api import StartRequest
from trace_core.tasks.claim import Claimed, Refused
from trace_core.tasks.invoke import invoke_ready
from trace_core.tasks.model import NotClaimed

LAMBDA = CHAIN.replace(
    "name: b, activation: reactive, runtime: worker",
    "name: b, activation: reactive, runtime: lambda",
)


@pytest.fixture
def lambda_world(world: World) -> World:
    world.deploy(LAMBDA)
    world.feed(1)
    return world


def _reserve(world: World) -> Claimed:
    (reserved,) = world.claims.reserve(world.org, Runtime.LAMBDA, 10)
    return reserved


def _start(world: World, reserved: Claimed, runner: str) -> Claimed | Refused:
    assert reserved.start_token is not None
    request = StartRequest(
        task_id=reserved.task_id, start_token=reserved.start_token, runner_id=runner
    )
    return world.claims.start(request)


def _invoke(world: World, runtime: Any) -> Send:
    return invoke_ready(world.claims, world.payloads, runtime, world.jitter)


def test_the_exchange_begins_the_attempt(lambda_world: World) -> None:
    reserved = _reserve(lambda_world)
    assert reserved.attempt == 0
    assert lambda_world.status_of(reserved) == "Queued"
    started = _start(lambda_world, reserved, "runner-1")
    assert isinstance(started, Claimed)
    assert started.attempt == 1
    assert lambda_world.status_of(reserved) == "Running"
    assert lambda_world.complete(started).status == "Completed"


def test_a_duplicate_invoke_does_not_run_twice(lambda_world: World) -> None:
    reserved = _reserve(lambda_world)
    assert isinstance(_start(lambda_world, reserved, "runner-1"), Claimed)
    assert _start(lambda_world, reserved, "runner-2") == Refused(
        reserved.task_id, NotClaimed.ALREADY_RUNNING
    )


def test_a_runner_whose_reply_was_lost_gets_the_same_lease_again(lambda_world: World) -> None:
    reserved = _reserve(lambda_world)
    assert _start(lambda_world, reserved, "runner-1") == _start(lambda_world, reserved, "runner-1")


def test_a_lapsed_reservation_is_sent_again_and_consumes_no_attempt(lambda_world: World) -> None:
    first = _reserve(lambda_world)
    lambda_world.clear_outbox()
    lambda_world.pass_time(minutes=2)
    assert lambda_world.reaper.run_once().lapsed == 1
    assert lambda_world.pending_wakes() == ["lambda"]
    second = _reserve(lambda_world)
    assert second.start_token != first.start_token
    assert _start(lambda_world, first, "late") == Refused(first.task_id, NotClaimed.NOT_FOUND)
    started = _start(lambda_world, second, "runner-2")
    assert isinstance(started, Claimed)
    assert started.attempt == 1


def test_five_lapses_count_as_a_failed_attempt(lambda_world: World) -> None:
    for _ in range(4):
        _reserve(lambda_world)
        lambda_world.pass_time(minutes=2)
        assert lambda_world.reaper.run_once().lapsed == 1
    reserved = _reserve(lambda_world)
    lambda_world.pass_time(minutes=2)
    assert lambda_world.reaper.run_once().retried == 1
    task = lambda_world.views.task(lambda_world.org, reserved.task_id)
    assert [attempt["outcome"] for attempt in task["attempts"]] == ["Lapsed"]
    lambda_world.pass_time(minutes=2)
    lambda_world.dispatcher.run_once()
    started = _start(lambda_world, _reserve(lambda_world), "runner-9")
    assert isinstance(started, Claimed)
    assert started.attempt == 2


def test_a_reserved_task_is_canceled_at_once(lambda_world: World) -> None:
    reserved = _reserve(lambda_world)
    assert lambda_world.admin.cancel(lambda_world.org, reserved.task_id, SYSTEM) == "Canceled"
    assert isinstance(_start(lambda_world, reserved, "runner-1"), Refused)


def test_the_relay_hands_over_payloads_with_start_tokens(lambda_world: World) -> None:
    sent: list[dict[str, object]] = []

    class Runtime_:
        def room(self) -> int:
            return 10

        def start(self, payload: dict[str, object]) -> None:
            sent.append(payload)

    send = _invoke(lambda_world, Runtime_())
    relay = lambda_world.relay(**{"lambda": send, "worker": lambda _org, _rows: None})
    relay.run_once()
    (payload,) = sent
    assert payload["start_token"]
    assert "lease_token" not in payload
    assert "capability_token" not in payload


def test_a_hand_over_that_fails_lapses_and_is_tried_again(lambda_world: World) -> None:
    calls: list[str] = []

    class Broken:
        def room(self) -> int:
            return 10

        def start(self, payload: dict[str, object]) -> None:
            calls.append("start")
            if len(calls) == 1:
                raise Unavailable

    send = _invoke(lambda_world, Broken())
    relay = lambda_world.relay(**{"lambda": send, "worker": lambda _org, _rows: None})
    assert relay.run_once().postponed == 1
    lambda_world.pass_time(minutes=2)
    lambda_world.reaper.run_once()
    relay.run_once()
    assert calls == ["start", "start"]


def test_a_worker_cannot_claim_by_id_what_the_platform_starts(lambda_world: World) -> None:
    task_id = lambda_world.rows("SELECT task_id FROM ready")[0].task_id
    assert lambda_world.claims.claim_ids(lambda_world.org, [task_id], "worker-1") == [
        Refused(task_id, NotClaimed.NOT_FOUND)
    ]


def test_no_more_is_reserved_than_the_runtime_has_room_for(lambda_world: World) -> None:
    class Full:
        def room(self) -> int:
            return 0

    send = _invoke(lambda_world, Full())
    relay = lambda_world.relay(**{"lambda": send, "worker": lambda _org, _rows: None})
    for _ in range(25):
        assert relay.run_once().failed == 0
    assert lambda_world.count("leases") == 1
    (row,) = lambda_world.rows("SELECT attempts, status FROM outbox")
    assert (row.attempts, row.status) == (0, "Pending")


def test_a_late_completion_counts_also_after_reservations_lapsed(lambda_world: World) -> None:
    started = _start(lambda_world, _reserve(lambda_world), "runner-1")
    assert isinstance(started, Claimed)
    lambda_world.pass_time(minutes=3)
    lambda_world.reaper.run_once()
    for _ in range(10):
        lambda_world.pass_time(minutes=11)
        lambda_world.dispatcher.run_once()
        for _ in range(5):
            if lambda_world.claims.reserve(lambda_world.org, Runtime.LAMBDA, 10):
                lambda_world.pass_time(minutes=2)
                lambda_world.reaper.run_once()
    assert lambda_world.status_of(started) == "Failed"
    assert lambda_world.complete(started).status == "Completed"
    assert lambda_world.status_of(started) == "Completed"
