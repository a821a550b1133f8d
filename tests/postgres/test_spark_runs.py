"""The life of a Spark run: asked for once, seen through, its end made true once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.spark_world import DAG, LOADED, LOOKING_BACK, ROWS, Crash, SparkWorld
from trace_core.identity.model import SYSTEM
from trace_core.kernel import limits
from trace_core.kernel.errors import Denied, Invalid, Unavailable
from trace_core.kernel.ids import Ids
from trace_core.kernel.scopes import Scope
from trace_core.ports.spark_runner import RunState
from trace_core.spark.model import SparkRun
from trace_core.spark.wire import SparkFailure


@pytest.fixture
def world(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[SparkWorld]:
    found = SparkWorld(state_dsn, None, tmp_path, manual_clock, ids)
    yield found
    found.close()


@pytest.fixture
def looking_back(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[SparkWorld]:
    found = SparkWorld(state_dsn, None, tmp_path, manual_clock, ids, LOOKING_BACK)
    yield found
    found.close()


@pytest.fixture
def loading(
    state_dsn: str, data_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[SparkWorld]:
    found = SparkWorld(state_dsn, data_dsn, tmp_path, manual_clock, ids, LOADED)
    yield found
    found.close()


def test_a_task_becomes_a_run_and_its_rows_a_commit(world: SparkWorld) -> None:
    world.begin()
    (task_id,) = world.task_ids()
    (request,) = world.runner.started
    assert request.client_token == f"{task_id}-1-1"
    assert request.timeout_seconds == 600
    assert request.read_prefixes == [f"org/{world.org}/run/{task_id}/1-1/in/"]
    assert request.write_prefixes == [f"org/{world.org}/run/{task_id}/1-1/out/"]
    payload = world.runner.payload()
    assert (payload.scope, payload.trigger) == (Scope.of_range(1, 2), "asked")
    assert payload.triggers == ("asked",)
    (lease,) = world.leases()
    assert lease.started_at is None, "the attempt begins when the run does"
    world.watch(seconds=90)
    world.app.reaper.run_once()
    assert world.leases(), "a reservation is not reaped while its run is known to wait"

    world.runner.move(RunState.RUNNING)
    begun = world.clock.now()
    world.watch()
    (lease,) = world.leases()
    assert (lease.attempt, lease.started_at) == (1, begun)
    world.watch(seconds=300)
    world.app.reaper.run_once()
    assert world.leases(), "known to run, it keeps its lease however rarely somebody looks"

    world.runner.succeed(ROWS, log="hello\n")
    world.watch()
    assert world.attempts() == [(1, "Completed", True, None)]
    assert world.committed_rows() == ROWS
    (commit,) = world.commits()
    assert "rows_1_2.parquet" in commit.objects[0]["key"]
    assert "/run/" not in commit.objects[0]["key"], "where no task can write"
    (run,) = world.runs()
    assert run.closed_at is not None and run.vcpu_hours == 0.5 and run.queued_seconds == 3.0
    keys = [each.key for each in world.app.objects.list(f"org/{world.org}/")]
    assert [key for key in keys if key.endswith(".log")] == [
        f"org/{world.org}/logs/{task_id}/1-1.log"
    ]
    assert not [key for key in keys if "/out/0/" in key], "what was copied is deleted"


def test_the_next_run_reads_what_the_first_one_wrote(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    world.watch()
    world.relay()
    assert len(world.runner.started) == 2
    assert world.runner.rows_given("work") == ROWS
    payload = world.runner.payload()
    assert [each.name for each in payload.inputs[0].columns] == ["number", "name"]
    request = world.runner.started[-1]
    assert len(request.read_prefixes) == 2
    (commit,) = world.commits()
    assert commit.objects[0]["key"].startswith(request.read_prefixes[1])


def test_an_operator_that_looks_back_is_given_the_row_before_its_range(
    looking_back: SparkWorld,
) -> None:
    world = looking_back
    for start in (1, 3):
        world.begin(start, start + 1)
        for run_id in world.runner.under_way():
            world.runner.move(RunState.RUNNING, run_id)
            world.watch()
            rows = [{"number": each, "name": "x"} for each in (start, start + 1)]
            world.runner.succeed(rows, run_id=run_id, cursor_column="number")
            world.watch()
    world.begin(3, 4)
    (payload,) = (
        each for each in map(world.runner.payload, world.runner.under_way()) if each.job == "next"
    )
    (work,) = (each for each in payload.inputs if each.alias == "work")
    kept = {(each.number, each.keep) for part in work.parts for each in part.objects}
    assert kept == {(1, ((2, 2),)), (2, None)}, "of the commit before, one row"


def test_rows_of_a_table_are_exported_at_the_pin_and_results_are_loaded(
    loading: SparkWorld,
) -> None:
    world = loading
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    world.watch()
    assert world.attempts() == [(1, "Completed", True, None)]
    assert world.committed_rows() == ROWS
    world.relay()
    assert world.runner.rows_given("work") == ROWS
    request = world.runner.started[-1]
    assert request.read_prefixes == [request.payload_uri.removeprefix(world.runner.root)[:-12]]


@pytest.mark.parametrize(
    "point",
    [
        "spark_prepare:before",
        "prepare_run:before_commit",
        "prepare_run:after_commit",
        "spark_start:exported",
        "begin_start:after_commit",
        "spark_start:before",
        "spark_start:after",
        "keep_run_id:before_commit",
        "keep_run_id:after_commit",
        "exchange_run:before_commit",
        "exchange_run:after_commit",
        "observe_run:after_commit",
        "spark_end:written",
        "spark_end:before_report",
        "complete_one:before_commit",
        "complete_one:after_commit",
        "spark_end:reported",
        "close_run:before_commit",
        "close_run:after_commit",
    ],
)
@pytest.mark.parametrize("layout", ["world", "loading"])
def test_a_crash_anywhere_is_made_good(
    point: str, layout: str, request: pytest.FixtureRequest
) -> None:
    world: SparkWorld = request.getfixturevalue(layout)
    world.ask()
    world.crash_at = point
    for _ in range(14):
        try:
            world.relay()
            if world.runner.runs:
                run = world.runner.run()
                if run.state is RunState.SUBMITTED:
                    world.runner.move(RunState.RUNNING)
                elif run.state is RunState.RUNNING and world.leases()[0].started_at:
                    world.runner.succeed(ROWS)
            world.watch(seconds=61)
            world.app.reaper.run_once()
            world.app.dispatcher.run_once()
        except Crash:
            continue
        if world.attempts():
            break
    assert world.crash_at is None, "the point was passed"
    world.watch(seconds=61)
    assert world.attempts()[0][1:] == ("Completed", True, None)
    of_work = [each for each in world.runner.runs if str(world.task_ids()[0]) in each]
    assert len(of_work) == 1, "one run was ever begun for the task"
    assert len(world.commits()) == 1
    assert world.committed_rows() == ROWS
    (run,) = (each for each in world.runs() if each.task_id == world.task_ids()[0])
    assert run.closed_at is not None


def test_a_lost_answer_of_the_service_is_asked_for_by_the_same_token(world: SparkWorld) -> None:
    world.runner.lost_answers = [Unavailable("no answer")]
    world.begin()
    assert world.runs()[0].run_id is None
    world.watch(seconds=2)
    world.relay()
    first, second = world.runner.started
    assert first == second
    assert len(world.runner.runs) == 1
    assert world.runs()[0].run_id == world.runner.last


def test_what_the_service_will_never_take_is_a_failed_attempt(world: SparkWorld) -> None:
    world.runner.errors = [Invalid("no such release")]
    world.begin()
    world.watch()
    assert world.attempts() == [(1, "Failed", True, "RunRefused")]
    assert world.runs()[0].closed_at is not None and not world.leases()


def test_a_denied_start_is_retried_until_attempts_are_used_up(world: SparkWorld) -> None:
    world.runner.errors = [Denied("may not") for _ in range(3)]
    world.begin()
    for _ in range(6):
        world.watch(seconds=700)
        world.app.dispatcher.run_once()
        world.relay()
    assert [(outcome, final) for _, outcome, final, _ in world.attempts()] == [
        ("Failed", False),
        ("Failed", False),
        ("Failed", True),
    ]


def test_a_run_that_dies_is_started_anew_under_the_next_token(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.move(RunState.FAILED, detail="the driver died")
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "RunFailed")]
    world.watch(seconds=60)
    world.app.dispatcher.run_once()
    world.relay()
    assert [each.client_token[37:] for each in world.runner.started] == ["1-1", "2-2"]
    world.runner.move(RunState.RUNNING)
    world.runner.succeed(ROWS)
    world.watch()
    assert world.attempts()[1] == (2, "Completed", True, None), "a quick run is not held against it"


def test_a_run_that_ends_before_it_runs_is_a_failed_attempt(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.FAILED, detail="no capacity")
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "RunFailed")]


def test_a_run_that_never_ran_is_shown_with_no_time_of_running(world: SparkWorld) -> None:
    world.begin()
    world.watch(minutes=61)
    world.relay()
    world.runner.move(RunState.CANCELLED)
    world.watch(seconds=30)
    assert world.attempts() == [(1, "Failed", False, "QueueTimedOut")]
    (run,) = world.runs()
    assert run.exchanged_at is not None, "it counts as an attempt"
    (shown,) = world.app.views.task(world.org, world.task_ids()[0])["runs"]
    times = ("started_at", "startup_seconds", "run_seconds")
    assert [shown[name] for name in times] == [None, None, None]


def test_the_operators_own_words_are_told(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.write(failure=SparkFailure("OperatorFailed", "no such column", False))
    world.runner.move(RunState.FAILED, detail="exit 1")
    world.watch()
    assert world.attempts() == [(1, "Failed", True, "OperatorFailed")]


def test_two_looks_at_once_see_one_run_begin(
    world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    store = world.app.spark.store
    exchange = store.exchange

    def second(run: SparkRun, lease: timedelta) -> bool:
        exchange(run, lease)  # the other look, of an event that came twice
        return exchange(run, lease)

    monkeypatch.setattr(store, "exchange", second)
    world.watch()
    (run,) = world.runs()
    assert (run.cancel_reason, run.state) == (None, "RUNNING"), "nobody ends what runs"
    world.relay()
    assert world.runner.run().cancels == 0
    world.runner.succeed(ROWS)
    world.watch()
    assert world.attempts() == [(1, "Completed", True, None)]


def test_a_run_ends_whatever_characters_it_was_told_to_have_died_of(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.move(RunState.FAILED, detail="ValueError: no number: 1\x00 \ud800")
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "RunFailed")]
    assert world.runs()[0].detail == "ValueError: no number: 1\\x00 \\ud800"


def test_time_counts_from_running_and_the_reaper_says_timed_out(world: SparkWorld) -> None:
    world.begin()
    world.watch(minutes=30)
    assert world.runs()[0].cancel_reason is None, "waiting is not running"
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.watch(seconds=601)
    assert world.runs()[0].cancel_reason == "TimedOut"
    world.relay()
    assert world.runner.run().cancels == 1
    world.app.reaper.run_once()
    assert world.leases(), "the next attempt needs the recorded end of this run"
    world.runner.move(RunState.CANCELLED)
    world.watch()
    world.app.reaper.run_once()
    assert world.attempts() == [(1, "TimedOut", False, "TimedOut")]


def test_a_result_that_came_just_in_time_counts(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.watch(seconds=601)
    world.runner.succeed(ROWS)
    world.watch()
    assert world.attempts() == [(1, "Completed", True, None)]


def test_queueing_has_a_limit_of_its_own(world: SparkWorld) -> None:
    world.begin()
    world.watch(minutes=61)
    assert world.runs()[0].cancel_reason == "QueueTimedOut"
    world.relay()
    world.runner.move(RunState.CANCELLED)
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "QueueTimedOut")]


def test_a_canceled_task_ends_its_run_first(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    (task_id,) = world.task_ids()
    world.app.task_admin.cancel(world.org, task_id, SYSTEM)
    world.relay()
    assert world.runner.run().cancels == 1, "by the outbox, without any look"
    world.runner.move(RunState.CANCELLED)
    world.watch()
    assert world.attempts() == [(1, "Canceled", True, None)]


def test_a_task_that_is_canceled_while_it_waits_ends_its_run(world: SparkWorld) -> None:
    world.begin()
    (task_id,) = world.task_ids()
    world.app.task_admin.cancel(world.org, task_id, SYSTEM)
    assert world.attempts() == [(1, "Canceled", True, None)]
    world.app.task_admin.retry(world.org, task_id, SYSTEM)
    world.relay()
    assert len(world.runner.runs) == 1, "no second run beside one that may still begin"
    assert not world.leases(), "nor is a place held for it meanwhile"
    world.runner.move(RunState.CANCELLED)
    world.watch()
    world.watch(seconds=11)
    world.app.dispatcher.run_once()
    world.relay()
    assert [each.client_token[37:] for each in world.runner.started] == ["1-1", "2-2"]


def test_a_lost_cancel_is_sent_again(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    (task_id,) = world.task_ids()
    world.app.task_admin.cancel(world.org, task_id, SYSTEM)
    world.state.write("lose", "DELETE FROM outbox WHERE kind = 'spark_cancel'", {})
    world.relay()
    assert world.runner.run().cancels == 0
    world.watch(seconds=61)
    world.relay()
    assert world.runner.run().cancels == 1


def test_a_lost_start_is_sent_again(world: SparkWorld) -> None:
    world.ask()
    world.app.relay.run_once()
    world.state.write("lose", "DELETE FROM outbox WHERE kind = 'spark_start'", {})
    world.relay()
    assert not world.runner.started
    world.watch(seconds=61)
    world.relay()
    assert len(world.runner.started) == 1


def test_a_run_that_the_service_forgot_is_lost(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.runs.clear()
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "RunLost")]


@pytest.mark.parametrize(
    ("objects", "columns", "said"),
    [
        (["../../in/payload.json"], None, "no object of output 0"),
        (["/etc/passwd"], None, "no object of output 0"),
        (["missing.parquet"], None, "is not there"),
        (None, {"number": "bigint"}, "has the columns"),
        (None, {"number": "nonsense", "name": "text"}, "no type"),
    ],
)
def test_a_result_that_lists_what_it_may_not_is_refused(
    world: SparkWorld, objects: list[str] | None, columns: dict[str, str] | None, said: str
) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    more = {} if columns is None else {"columns": columns}
    world.runner.succeed(ROWS, objects=objects, **more)
    world.watch()
    ((_, outcome, final, code),) = world.attempts()
    assert (outcome, final) == ("Failed", True), code
    (row,) = world.rows("SELECT error_message FROM attempts WHERE outcome = 'Failed'")
    assert said in row.error_message
    assert not world.commits()


def test_a_success_without_a_result_is_tried_again(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.SUCCESS)
    world.watch()
    assert world.attempts() == [(1, "Failed", False, "ResultMissing")]


def test_what_a_run_left_is_deleted_also_by_whoever_comes_after_a_crash(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    world.crash_at = "close_run:after_commit"
    with pytest.raises(Crash):
        world.watch()
    world.watch(seconds=61)
    assert world.attempts() == [(1, "Completed", True, None)]
    assert world.runs()[0].closed_at is not None
    keys = [each.key for each in world.app.objects.list(f"org/{world.org}/run/")]
    assert sorted(key.rpartition("/")[2] for key in keys) == ["payload.json", "result.json"]


@pytest.mark.parametrize("layout", ["world", "loading"])
def test_an_object_that_no_memory_holds_is_refused_before_it_is_read(
    layout: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    world: SparkWorld = request.getfixturevalue(layout)
    monkeypatch.setattr("trace_core.storage.adopted.SPARK_OBJECT_MAX", 100)
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    world.watch()
    ((_, outcome, final, _),) = world.attempts()
    assert (outcome, final) == ("Failed", True)
    (row,) = world.rows("SELECT error_message FROM attempts WHERE outcome = 'Failed'")
    assert "write the rows in more files" in row.error_message


def test_an_end_that_kills_whoever_takes_it_over_is_given_up(world: SparkWorld) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    for _ in range(limits.SPARK_END_TRIES):
        world.crash_at = "spark_end:written"
        with pytest.raises(Crash):
            world.watch(seconds=61)
    world.watch(seconds=61)
    assert world.attempts() == [(1, "Failed", False, "ResultNotTaken")]
    assert world.runs()[0].closed_at is not None
    assert not world.commits()


def test_a_result_outlives_half_an_hour_in_which_it_cannot_be_taken_over(
    world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin()
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)

    def away(*_: object) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.app.spark.endings, "_end", away)
        for _ in range(90):
            world.watch(seconds=20)
    assert world.attempts() == []
    assert world.runs()[0].end_tries < limits.SPARK_END_TRIES
    world.watch(minutes=5)
    assert world.attempts() == [(1, "Completed", True, None)]


def test_no_more_runs_are_asked_for_than_there_is_room(world: SparkWorld) -> None:
    world.runner.places = 2
    for start in (10, 20, 30):
        world.ask(start, start + 1)
    world.relay()
    assert len(world.runner.runs) == 2
    world.runner.move(RunState.RUNNING)
    world.watch()
    world.runner.succeed(ROWS)
    world.watch()
    world.relay()
    assert len(world.runner.runs) == 3


def test_one_pass_looks_at_every_run_of_a_large_application(world: SparkWorld) -> None:
    world.runner.places = 50
    for start in range(0, 100, 2):
        world.ask(start, start + 1)
    world.relay()
    for run_id in world.runner.under_way():
        world.runner.move(RunState.RUNNING, run_id)
    world.clock.advance(world.app.timings.run_poll)
    assert world.app.spark.watch.chore() == 50
    assert [each.state for each in world.runs()] == ["RUNNING"] * 50


def test_a_source_cannot_be_a_spark_run(world: SparkWorld) -> None:
    text = DAG.replace("runtime: dispatcher, operator: range_request", "runtime: emr_serverless,"
                       " operator: spark_copy")  # fmt: skip
    with pytest.raises(Invalid):
        world.app.deploys.deploy(world.org, text, "sparks.dag.yaml", SYSTEM)
