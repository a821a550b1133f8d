"""Completion: fenced, idempotent, and late ones count as long as no newer attempt has started."""

from __future__ import annotations

import pytest

from tests.factories import CHAIN, World, completion
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import (
    NotFound,
    OutcomeDiffers,
    StaleAttempt,
    TaskCanceled,
)
from trace_core.tasks.events import ForeignOutput
from trace_core.tasks.results import ForeignLocation


def test_a_completion_with_events_makes_the_next_tasks(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    assert chain.complete(claim, events=[chain.event("b", 1)]).status == "Completed"
    (following,) = chain.claim(10)
    assert following.trigger is not None
    assert following.trigger.producer_task_id == claim.task_id
    assert chain.status_of(claim) == "Completed"


def test_the_same_body_twice_is_the_same_outcome(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    body = {"events": [chain.event("b", 1).model_dump()]}
    assert chain.complete(claim, **body).status == "Completed"
    assert chain.complete(claim, **body).status == "Completed"
    assert chain.count("events") == 2
    assert len(chain.claim(10)) == 1


def test_another_body_under_the_same_fence_is_refused(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.complete(claim)
    result = chain.complete(claim, events=[chain.event("b", 1)])
    assert isinstance(result.error, OutcomeDiffers)
    assert isinstance(chain.report(claim, "Failed").error, OutcomeDiffers)


def test_a_stale_attempt_changes_nothing(chain: World) -> None:
    chain.feed(1)
    old = chain.claim_one()
    chain.pass_time(minutes=3)
    chain.reaper.run_once()
    chain.pass_time(minutes=3)
    chain.dispatcher.run_once()
    new = next(claim for claim in chain.claim(10) if claim.task_id == old.task_id)
    assert new.attempt == 2
    before = chain.count("events")
    assert isinstance(chain.complete(old, events=[chain.event("b", 1)]).error, StaleAttempt)
    with pytest.raises(StaleAttempt):
        chain.accept(old, [chain.event("b", 1)])
    with pytest.raises(StaleAttempt):
        chain.leases.heartbeat(chain.org, old.fence)
    assert chain.count("events") == before
    assert chain.complete(new).status == "Completed"


def test_a_wrong_lease_token_is_refused(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    forged = completion(claim).model_copy(update={"lease_token": chain.ids.token()})
    (result,) = chain.completions.complete(chain.org, [forged])
    assert isinstance(result.error, StaleAttempt)
    assert chain.status_of(claim) == "Running"


@pytest.mark.parametrize("waits", ["for its retry", "in the queue"])
def test_a_late_completion_of_the_current_attempt_is_accepted(chain: World, waits: str) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.pass_time(minutes=3)
    chain.reaper.run_once()
    assert chain.status_of(claim) == "Failed"
    if waits == "in the queue":
        chain.pass_time(minutes=3)
        chain.dispatcher.run_once()
        assert chain.status_of(claim) == "Queued"
    assert chain.complete(claim, events=[chain.event("b", 1)]).status == "Completed"
    assert chain.status_of(claim) == "Completed"
    assert claim.task_id not in [each.task_id for each in chain.claim(10)]


def test_a_late_completion_is_accepted_after_the_task_failed_for_good(world: World) -> None:
    world.deploy(CHAIN.replace("name: b,", "name: b, max_attempts: 1,"))
    world.feed(1)
    claim = world.claim_one()
    world.pass_time(minutes=3)
    report = world.reaper.run_once()
    assert report.failed == 1
    assert world.status_of(claim) == "Failed"
    assert world.complete(claim, events=[world.event("b", 1)]).status == "Completed"
    task = world.views.task(world.org, claim.task_id)
    assert task["status"] == "Completed"
    assert task["attempts"][0]["late"]


def test_a_late_completion_is_accepted_while_the_next_attempt_is_only_reserved(
    world: World,
) -> None:
    world.deploy(CHAIN.replace("name: b, activation: reactive, runtime: worker",
                               "name: b, activation: reactive, runtime: lambda"))  # fmt: skip
    world.feed(1)
    (first,) = world.claims.reserve(world.org, Runtime.LAMBDA, 1)
    started = _start(world, first, "runner-1")
    world.pass_time(minutes=3)
    world.reaper.run_once()
    world.pass_time(minutes=3)
    world.dispatcher.run_once()
    (second,) = world.claims.reserve(world.org, Runtime.LAMBDA, 1)
    assert second.task_id == started.task_id
    assert world.complete(started).status == "Completed"
    refused = _start(world, second, "runner-2")
    assert refused.reason == "NotFound"


def _start(world: World, reserved, runner: str):  # type: ignore[no-untyped-def]
    from trace_core.tasks.api import StartRequest

    return world.claims.start(
        StartRequest(task_id=reserved.task_id, start_token=reserved.start_token, runner_id=runner)
    )


def test_an_event_for_a_dataset_of_another_job_is_refused_whole(chain: World) -> None:
    source = chain.feed(1)
    claim = chain.claim_one()
    before = chain.count("events")
    own, foreign = chain.event("b", 1), chain.event("a", 2)
    assert isinstance(chain.complete(claim, events=[own, foreign]).error, ForeignOutput)
    assert chain.status_of(claim) == "Running"
    with pytest.raises(ForeignOutput):
        chain.accept(source, [chain.event("a", 9), chain.event("b", 9)])
    assert chain.count("events") == before
    swapped = own.model_copy(update={"dataset_uuid": chain.output("a")[0]})
    assert isinstance(chain.complete(claim, events=[swapped]).error, ForeignOutput)


def test_a_batch_is_judged_task_by_task(chain: World) -> None:
    chain.feed(1, 2, 3)
    good, stale, foreign = chain.claim(3)
    reports = [
        completion(good, events=[chain.event("b", 1)]),
        completion(stale).model_copy(update={"attempt": 9}),
        completion(foreign, events=[chain.event("a", 1)]),
    ]
    results = chain.completions.complete(chain.org, reports)
    assert [result.status for result in results] == ["Completed", None, None]
    assert isinstance(results[1].error, StaleAttempt)
    assert isinstance(results[2].error, ForeignOutput)


def test_a_task_reported_twice_in_one_call_is_completed_once(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    body = completion(claim, events=[chain.event("b", 1)])
    other = completion(claim)
    results = chain.completions.complete(chain.org, [body, body.model_copy(), other])
    assert [result.status for result in results] == ["Completed", "Completed", None]
    assert isinstance(results[2].error, OutcomeDiffers)


def test_outputs_are_recorded_and_foreign_ones_refused(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    dataset, version = chain.output("b")
    prefix = chain.payloads.build([claim])[0]["outputs"][0]["staging_prefix"]
    output = {
        "output_index": 0,
        "dataset_uuid": dataset,
        "dataset_version": version,
        "location": f"{prefix}blocks_1_1.parquet",
        "cursor": 1,
        "row_count": 5,
    }
    wrong = {**output, "output_index": 1}
    assert isinstance(chain.complete(claim, outputs=[wrong]).error, ForeignOutput)
    for location in ("org/else/x.parquet", f"{prefix}../x.parquet", "postgres_table:other"):
        elsewhere = {**output, "location": location}
        assert isinstance(chain.complete(claim, outputs=[elsewhere]).error, ForeignLocation)
    assert chain.complete(claim, outputs=[output]).status == "Completed"
    (stored,) = chain.views.task(chain.org, claim.task_id)["outputs"]
    assert (stored["row_count"], stored["location"]) == (5, f"{prefix}blocks_1_1.parquet")


def test_a_foreign_org_sees_no_task(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    other = chain.another_org()
    (result,) = chain.completions.complete(other, [completion(claim)])
    assert isinstance(result.error, NotFound)
    with pytest.raises(NotFound):
        chain.leases.heartbeat(other, claim.fence)
    with pytest.raises(NotFound):
        chain.views.task(other, claim.task_id)
    with pytest.raises(NotFound):
        chain.admin.cancel(other, claim.task_id, SYSTEM)
    assert chain.status_of(claim) == "Running"


def test_a_failed_attempt_is_retried_after_its_backoff(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    assert chain.report(claim, "Failed", error_code="Boom", error_message="no").status == "Failed"
    chain.clear_outbox()
    chain.pass_time(seconds=14)
    assert chain.dispatcher.run_once().due == 0
    chain.pass_time(seconds=32)
    assert chain.dispatcher.run_once().due == 1
    assert chain.pending_wakes() == ["worker"]
    again = next(each for each in chain.claim(10) if each.task_id == claim.task_id)
    assert again.attempt == 2
    assert again.lease_token != claim.lease_token


def test_attempts_end_with_the_last_failure(chain: World) -> None:
    chain.feed(1)
    for attempt in (1, 2, 3):
        claim = next(each for each in chain.claim(10) if each.trigger is not None)
        assert claim.attempt == attempt
        chain.report(claim, "Failed")
        chain.pass_time(minutes=20)
        chain.dispatcher.run_once()
    assert chain.status_of(claim) == "Failed"
    assert chain.claim(10) == [] or all(each.trigger is None for each in chain.claim(10))


def test_a_failure_that_is_not_retryable_ends_the_task(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.report(claim, "Failed", retryable=False)
    chain.pass_time(hours=1)
    chain.dispatcher.run_once()
    assert chain.views.task(chain.org, claim.task_id)["attempt"] == 1
    assert chain.status_of(claim) == "Failed"
    assert chain.admin.retry(chain.org, claim.task_id, SYSTEM) == "Queued"
    assert next(c for c in chain.claim(10) if c.task_id == claim.task_id).attempt == 2


def test_cancel_is_cooperative(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.admin.cancel(chain.org, claim.task_id, SYSTEM)
    before = chain.rows("SELECT lease_expires_at AS at FROM leases WHERE task_id = %(t)s",
                        t=claim.task_id)[0].at  # fmt: skip
    chain.pass_time(seconds=30)
    beat = chain.leases.heartbeat(chain.org, claim.fence)
    assert beat.status == "Canceled"
    assert beat.lease_expires_at == before
    with pytest.raises(TaskCanceled):
        chain.accept(claim, [chain.event("b", 1)])
    assert isinstance(chain.complete(claim).error, TaskCanceled)
    assert chain.report(claim, "Canceled").status == "Canceled"
    assert chain.report(claim, "Canceled").status == "Canceled"
    assert chain.status_of(claim) == "Canceled"


def test_a_canceled_task_that_never_answers_ends_with_its_lease(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    chain.admin.cancel(chain.org, claim.task_id, SYSTEM)
    chain.pass_time(minutes=3)
    assert chain.reaper.run_once().canceled == 1
    assert chain.status_of(claim) == "Canceled"


def test_a_queued_task_is_canceled_at_once(chain: World) -> None:
    chain.feed(1)
    task_id = chain.rows("SELECT task_id FROM ready")[0].task_id
    assert chain.admin.cancel(chain.org, task_id, SYSTEM) == "Canceled"
    assert chain.admin.cancel(chain.org, task_id, SYSTEM) == "Canceled"
    assert chain.claim(10) == []
