"""Sources: one durable task in slices that yield, by themselves, by schedule or by request."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.factories import World
from tests.postgres.lite_app import stored
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Invalid, NotFound, OutcomeDiffers, StaleAttempt
from trace_core.kernel.limits import YIELDS_KEPT
from trace_core.tasks.claim import Claimed
from trace_core.tasks.results import StateMoved

CONTROL = """
version: 1
name: control
jobs:
  - {name: history, activation: source, runtime: dispatcher, operator: range_request,
     source: {kind: manual}, outputs: 1}
  - {name: tick, activation: source, runtime: dispatcher, operator: trigger_cron,
     source: {kind: cron, schedule: "*/5 * * * *"}, outputs: 1}
  - {name: chunks, activation: reactive, runtime: dispatcher, operator: range_splitter,
     execution_strategy: PerPartition, inputs: [{from: {job: history, output: 0}}], outputs: 1,
     config: {chunk_size: 10}}
  - {name: ranges, activation: reactive, runtime: dispatcher, operator: range_aggregator,
     execution_strategy: PerUpdate, inputs: [{from: {job: chunks, output: 0}}], outputs: 1,
     config: {cursor: block_number, range_size: 50}}
"""


def _scopes(world: World, job: str) -> list[str]:
    rows = world.rows(
        "SELECT e.scope FROM events e JOIN dataset_versions v USING (dataset_version)"
        " JOIN jobs j USING (job_id) WHERE j.name = %(job)s ORDER BY e.range_start, e.revision",
        job=job,
    )
    return [row.scope for row in rows]


def _settle(world: World) -> None:
    world.dispatcher.run_until_idle(timedelta(seconds=30))


def test_a_slice_yields_and_the_next_one_continues_the_same_attempt(chain: World) -> None:
    first = chain.claim_one()
    state = [{"key": "next", "revision": 0, "value": 5}]
    assert chain.report(first, "Yielded", state=state, events=[chain.event("a", 1)]).status
    second = next(claim for claim in chain.claim(10) if claim.trigger is None)
    assert (second.task_id, second.attempt, second.lease_sequence) == (first.task_id, 1, 2)
    assert second.lease_token != first.lease_token
    (entry,) = chain.payloads.build([second])[0]["state"]
    assert entry == {"key": "next", "revision": 1, "value": 5}


def test_a_repeated_yield_is_the_same_outcome(chain: World) -> None:
    first = chain.claim_one()
    assert chain.report(first, "Yielded").status == "Yielded"
    assert chain.report(first, "Yielded").status == "Yielded"
    assert chain.count("ready") == 1


def test_a_yield_repeated_after_the_next_slices_began_is_answered_as_the_first_time(
    chain: World,
) -> None:
    first = chain.claim_one()
    body = {"events": [chain.event("a", 1)], "state": [{"key": "k", "revision": 0, "value": 1}]}
    assert chain.report(first, "Yielded", **body).status == "Yielded"
    second = _next_slice(chain)
    for _ in range(2):
        before = stored(chain.state)
        assert chain.report(first, "Yielded", **body).status == "Yielded"
        assert stored(chain.state) == before
        assert chain.report(second, "Yielded").status == "Yielded"
        third = _next_slice(chain)
        assert chain.report(third, "Failed").status == "Failed"
        chain.pass_time(minutes=16)
        chain.dispatcher.run_once()
        second = _next_slice(chain)
    assert chain.status_of(second) == "Running"


def test_another_body_under_the_fence_of_an_accepted_slice_is_refused(chain: World) -> None:
    first = chain.claim_one()
    chain.report(first, "Yielded")
    for next_one_runs in (False, True):
        if next_one_runs:
            _next_slice(chain)
        before = stored(chain.state)
        for status, body in (("Yielded", {"resume_after_seconds": 5}), ("Failed", {})):
            result = chain.report(first, status, **body)
            assert isinstance(result.error, OutcomeDiffers)
        assert stored(chain.state) == before


def test_a_slice_that_was_never_accepted_is_stale_however_old_it_is(chain: World) -> None:
    first = chain.claim_one()
    chain.report(first, "Yielded")
    second = _next_slice(chain)
    made_up = replace(second, lease_token=first.task_id)
    assert isinstance(chain.report(made_up, "Yielded").error, StaleAttempt)
    assert isinstance(chain.report(replace(first, attempt=9), "Yielded").error, StaleAttempt)


def test_of_each_source_only_the_last_accepted_slices_are_kept(chain: World) -> None:
    first = chain.claim_one()
    chain.report(first, "Yielded")
    for _ in range(YIELDS_KEPT - 1):
        chain.report(chain.claim_one(), "Yielded")
    assert chain.report(first, "Yielded").status == "Yielded"
    chain.report(chain.claim_one(), "Yielded")
    assert isinstance(chain.report(first, "Yielded").error, StaleAttempt)
    assert chain.count("yields") == YIELDS_KEPT


def _next_slice(world: World) -> Claimed:
    return next(claim for claim in world.claim(10) if claim.trigger is None)


def test_a_source_may_rest_between_slices(chain: World) -> None:
    chain.report(chain.claim_one(), "Yielded", resume_after_seconds=30)
    assert chain.claim(1) == []
    chain.pass_time(seconds=31)
    chain.dispatcher.run_once()
    assert len(chain.claim(1)) == 1


def test_operator_state_is_compared_and_set(chain: World) -> None:
    source = chain.claim_one()
    wrong = [{"key": "next", "revision": 3, "value": 5}]
    assert chain.report(source, "Yielded", state=wrong, events=[chain.event("a", 1)]).status
    source = next(claim for claim in chain.claim(10) if claim.trigger is None)
    result = chain.report(source, "Yielded", state=wrong, events=[chain.event("a", 2)])
    assert isinstance(result.error, StateMoved)
    assert chain.count("events") == 1
    assert chain.status_of(source) == "Running"


def test_a_source_never_ends_failed_and_a_committed_slice_forgets_failures(chain: World) -> None:
    for failures in range(1, 8):
        source = chain.claim_one()
        assert source.attempt == failures
        chain.report(source, "Failed")
        chain.pass_time(minutes=16)
        chain.dispatcher.run_once()
    source = chain.claim_one()
    chain.report(source, "Yielded")
    source = chain.claim_one()
    chain.report(source, "Failed")
    chain.pass_time(seconds=46)
    assert chain.dispatcher.run_once().due == 1


def test_a_source_yields_and_other_tasks_do_not(chain: World) -> None:
    source = chain.feed(1)
    assert isinstance(chain.complete(source).error, Invalid)
    claim = chain.claim_one()
    assert isinstance(chain.report(claim, "Yielded").error, Invalid)


def test_a_request_goes_through_splitter_and_aggregator(world: World) -> None:
    world.deploy(CONTROL)
    assert (
        world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 149}, SYSTEM)
        == 1
    )
    _settle(world)
    assert _scopes(world, "history") == ["p0-149"]
    assert _scopes(world, "chunks") == [f"p{start}-{start + 9}" for start in range(0, 150, 10)]
    assert _scopes(world, "ranges") == ["p0-49", "p50-99", "p100-149"]
    assert world.views.status(world.org)["totals"]["queued"] == 0


def test_asking_for_the_same_range_again_announces_it_again(world: World) -> None:
    world.deploy(CONTROL)
    for _ in range(2):
        world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 49}, SYSTEM)
        _settle(world)
    assert _scopes(world, "ranges") == ["p0-49", "p0-49"]


def test_a_request_to_a_running_source_is_not_lost(world: World) -> None:
    world.deploy(CONTROL)
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 9}, SYSTEM)
    (slice_,) = world.claim(10, Runtime.DISPATCHER)
    world.requests.trigger(world.org, "control", "history", {"start": 10, "end": 19}, SYSTEM)
    event = {"start": 0, "end": 9, "revision": 1}
    dataset, version = world.output("history")
    world.report(
        slice_,
        "Yielded",
        triggers_taken=[1],
        events=[{"dataset_uuid": dataset, "dataset_version": version, **event}],
    )
    _settle(world)
    assert _scopes(world, "history") == ["p0-9", "p10-19"]


def test_a_request_is_refused_for_what_is_no_manual_source(world: World) -> None:
    world.deploy(CONTROL)
    with pytest.raises(Invalid):
        world.requests.trigger(world.org, "control", "tick", {}, SYSTEM)
    with pytest.raises(NotFound):
        world.requests.trigger(world.org, "control", "chunks", {}, SYSTEM)
    with pytest.raises(NotFound):
        world.requests.trigger(
            world.another_org(), "control", "history", {"start": 1, "end": 2}, SYSTEM
        )


def test_each_tick_of_a_schedule_is_announced_once(world: World) -> None:
    world.deploy(CONTROL)
    for _ in range(31):
        world.pass_time(minutes=1)
        _settle(world)
        _settle(world)
    assert len(_scopes(world, "tick")) == 6


def test_a_control_operator_that_fails_is_retried_and_shown(world: World) -> None:
    world.deploy(CONTROL.replace("range_size: 50", "range_size: 1"))
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 10**12}, SYSTEM)
    _settle(world)
    failed = world.views.tasks(world.org, job="chunks")[0]
    assert failed["status"] == "Failed"
    assert failed["error_message"]


def test_two_dispatchers_reduce_the_same_job_without_losing_state(world: World) -> None:
    world.deploy(CONTROL)
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 999}, SYSTEM)
    for _ in range(40):
        world.control.run_once(limit=7)
    _settle(world)
    assert len(_scopes(world, "ranges")) == 20


def test_a_request_that_the_operator_would_not_understand_is_refused_to_whoever_asks(
    world: World,
) -> None:
    world.deploy(CONTROL)
    for request in ({}, {"start": 5, "end": 1}, {"start": 0, "end": "9"}, {"start": 0, "e": 1}):
        with pytest.raises(Invalid):
            world.requests.trigger(world.org, "control", "history", request, SYSTEM)
    assert world.count("triggers") == 0


def test_a_split_into_thousands_of_chunks_is_one_completion(world: World) -> None:
    world.deploy(CONTROL)
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 24_999}, SYSTEM)
    _settle(world)
    assert len(_scopes(world, "chunks")) == 2_500
    assert len(_scopes(world, "ranges")) == 500


def test_a_late_report_of_a_slice_that_was_given_up_ends_nothing(chain: World) -> None:
    source = chain.claim_one()
    chain.pass_time(minutes=3)
    chain.reaper.run_once()
    for status in ("Completed", "Yielded"):
        assert isinstance(chain.report(source, status).error, StaleAttempt)
    chain.pass_time(minutes=3)
    chain.dispatcher.run_once()
    assert chain.claim_one().task_id == source.task_id


def test_the_relay_is_woken_only_after_a_reduction_has_committed(world: World) -> None:
    world.deploy(CONTROL)
    world.requests.trigger(world.org, "control", "history", {"start": 0, "end": 49}, SYSTEM)
    world.clear_outbox()
    seen: list[int] = []

    def wake(_function: object) -> None:
        # Another connection sees committed rows only.
        seen.append(world.count("outbox"))

    world.waker.wake = wake  # type: ignore[method-assign]
    _settle(world)
    assert seen
    assert 0 not in seen
