"""What every runner of PySpark operators does, in both profiles."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conformance.spark_runs import SparkRunnerHarness
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.ports.spark_runner import RunState

ORDER = (
    *(RunState.SUBMITTED, RunState.QUEUED, RunState.PENDING, RunState.SCHEDULED),
    *(RunState.RUNNING, RunState.CANCELLING),
)


def test_a_run_goes_through_its_states_in_order_and_leaves_its_result(
    spark_runners: SparkRunnerHarness,
) -> None:
    runner, place = spark_runners.runner, spark_runners.place
    request = place.request("rows")
    run_id = spark_runners.begin(request)
    seen = [runner.status(run_id).state]
    while not seen[-1].has_ended:
        seen.append(runner.status(run_id).state)
        time.sleep(0.005)
    assert seen[-1] is RunState.SUCCESS
    open_ones = [ORDER.index(each) for each in seen[:-1]]
    assert all(one <= next_one for one, next_one in pairwise(open_ones))
    result = place.result(request)
    assert result is not None
    assert result.failure is None
    assert len(result.written) == 1


def test_waiting_starting_and_running_are_told_apart(spark_runners: SparkRunnerHarness) -> None:
    found = spark_runners.ended(spark_runners.start("rows"))
    assert found.submitted_at is not None
    assert found.started_at is not None
    assert found.ended_at is not None
    assert found.submitted_at <= found.started_at <= found.ended_at
    assert found.queued_seconds is not None
    assert 0 <= found.queued_seconds <= (found.started_at - found.submitted_at).total_seconds()
    assert found.usage is not None
    assert found.usage.vcpu_hours > 0
    assert found.usage.memory_gb_hours > 0


def test_the_same_client_token_is_the_same_run_also_after_it_has_ended(
    spark_runners: SparkRunnerHarness, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    request = spark_runners.place.request("rows", {"mark": str(mark)})
    run_id = spark_runners.begin(request)
    assert spark_runners.runner.start(request) == run_id
    ended = spark_runners.ended(run_id)
    with spark_runners.another() as other:
        assert other.start(request) == run_id
        assert other.status(run_id) == ended
    assert mark.read_text() == "ran\n"


def test_another_client_token_is_another_run(
    spark_runners: SparkRunnerHarness, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    request = spark_runners.place.request("rows", {"mark": str(mark)})
    first = spark_runners.begin(request)
    spark_runners.ended(first)
    second = spark_runners.begin(replace(request, client_token=f"{request.client_token}-2"))
    assert second != first
    spark_runners.ended(second)
    assert mark.read_text() == "ran\nran\n"


def test_an_operator_that_fails_is_a_failed_run_with_a_result(
    spark_runners: SparkRunnerHarness,
) -> None:
    request = spark_runners.place.request("give_up")
    found = spark_runners.ended(spark_runners.begin(request))
    assert found.state is RunState.FAILED
    assert found.detail
    result = spark_runners.place.result(request)
    assert result is not None
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("LabelsAway", True)


def test_a_run_without_a_payload_fails_without_a_result(spark_runners: SparkRunnerHarness) -> None:
    request = spark_runners.place.request("rows")
    missing = replace(request, payload_uri=f"{request.payload_uri}.gone")
    found = spark_runners.ended(spark_runners.begin(missing))
    assert found.state is RunState.FAILED
    assert found.detail
    assert spark_runners.place.result(request) is None


@pytest.mark.parametrize("operator", ["crunch", "spin", "hang_on"])
def test_a_cancel_ends_the_work_of_a_run(spark_runners: SparkRunnerHarness, operator: str) -> None:
    request = spark_runners.place.request(operator)
    run_id = spark_runners.begin(request)
    spark_runners.becomes(run_id, RunState.RUNNING)
    time.sleep(0.5)  # into the work
    spark_runners.runner.cancel(run_id)
    spark_runners.runner.cancel(run_id)
    found = spark_runners.becomes(run_id, RunState.CANCELLED)
    assert found.started_at is not None
    assert found.ended_at is not None
    result = spark_runners.place.result(request)
    assert result is None or result.failure is not None
    # Nothing of it works on, and the runner takes the next one.
    after = spark_runners.ended(spark_runners.start("idle_stages"))
    assert after.state is RunState.SUCCESS, after.detail


def test_a_run_that_is_canceled_before_it_begins_never_begins(
    spark_runners: SparkRunnerHarness, tmp_path: Path
) -> None:
    blocking = _take_all_places(spark_runners)
    mark = tmp_path / "mark"
    waiting = spark_runners.start("rows", {"mark": str(mark)})
    spark_runners.becomes(waiting, RunState.QUEUED)
    spark_runners.runner.cancel(waiting)
    found = spark_runners.becomes(waiting, RunState.CANCELLED)
    assert found.started_at is None
    for each in blocking:
        spark_runners.runner.cancel(each)
        spark_runners.ended(each)
    assert not mark.exists()


def test_canceling_what_has_ended_changes_nothing(spark_runners: SparkRunnerHarness) -> None:
    run_id = spark_runners.start("announce")
    ended = spark_runners.ended(run_id)
    spark_runners.runner.cancel(run_id)
    assert spark_runners.runner.status(run_id) == ended


def test_a_run_that_nobody_began_is_not_found(spark_runners: SparkRunnerHarness) -> None:
    with pytest.raises(NotFound):
        spark_runners.runner.status("00f0000000000000")
    with pytest.raises(NotFound):
        spark_runners.runner.cancel("00f0000000000000")


def test_the_timeout_counts_from_running_and_ends_the_run(
    spark_runners: SparkRunnerHarness,
) -> None:
    run_id = spark_runners.start("crunch", timeout_seconds=1)
    found = spark_runners.becomes(run_id, RunState.CANCELLED)
    assert found.detail == "it ran longer than 1 s"
    assert found.started_at is not None
    assert found.ended_at is not None
    assert (found.ended_at - found.started_at).total_seconds() >= 1


def test_a_run_that_waits_too_long_for_room_never_begins(
    spark_runners: SparkRunnerHarness,
) -> None:
    _take_all_places(spark_runners)
    run_id = spark_runners.start("rows", queue_seconds=1)
    found = spark_runners.becomes(run_id, RunState.CANCELLED)
    assert found.detail == "it waited longer than 1 s to begin"
    assert found.started_at is None


def test_room_is_taken_by_open_runs_only(spark_runners: SparkRunnerHarness) -> None:
    before = spark_runners.runner.room()
    assert before > 0
    run_id = spark_runners.start("spin")
    taken = 1 if spark_runners.counts_what_it_holds else 0
    assert spark_runners.runner.room() == before - taken
    spark_runners.runner.cancel(run_id)
    spark_runners.ended(run_id)
    assert spark_runners.runner.room() == before


def test_two_runs_at_once_share_no_views_and_no_settings(
    spark_runners: SparkRunnerHarness,
) -> None:
    both = [spark_runners.start("own_view", {"value": value}) for value in (3, 5)]
    for each in both:
        found = spark_runners.ended(each)
        assert found.state is RunState.SUCCESS, found.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"client_token": ""},
        {"client_token": "a b"},
        {"client_token": "a\n"},
        {"client_token": "a" * 65},
        {"timeout_seconds": 0},
        {"queue_seconds": 0},
        {"read_prefixes": ("runs/1",)},
        {"write_prefixes": ("runs/*/",)},
        {"write_prefixes": ("../",)},
    ],
)
def test_a_request_that_can_never_run_is_refused(
    spark_runners: SparkRunnerHarness, changes: dict[str, object]
) -> None:
    with pytest.raises(Invalid):
        spark_runners.runner.start(spark_runners.place.request("rows", **changes))


def _take_all_places(spark_runners: SparkRunnerHarness) -> list[str]:
    taken = [spark_runners.start("spin") for _ in range(2)]
    for each in taken:
        spark_runners.becomes(each, RunState.RUNNING)
    return taken
