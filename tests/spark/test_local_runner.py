"""The runner process of one machine: whatever dies, nothing half done counts, and the next run is
served."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from emr_jobs.local_run import LocalRun
from emr_jobs.runner import Runner, take_over
from emr_jobs.warm_session import WarmSession
from tests.conformance import harness as conformance
from tests.conformance.spark_runs import RunPlace, SparkRunnerHarness, becomes
from trace_core.adapters.lite.local_spark import LocalSparkRunner, SparkSize
from trace_core.adapters.lite.spark_runs import SparkRuns
from trace_core.kernel.errors import Unavailable
from trace_core.ports.spark_runner import RunRequest, RunState, RunStatus

SMALL = SparkSize(memory="512m", grace_seconds=1.0)
OWN_OPERATORS = """
from pyspark.sql import functions as F
from pydantic import BaseModel
from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime

class Config(BaseModel):
    pass

def half(value):
    return value // 2

def run(task, io):
    rows = io.spark.range(10).select(F.udf(half, "bigint")("id").alias("number"))
    io.write(0, rows)

OPERATORS = [
    OperatorSpec(
        name="halves", code_version="1", activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.EMR_SERVERLESS}), config=Config, description="Halves.",
        implementation=f"{__name__}:run",
    )
]
IMPLEMENTATION = f"{__name__}:run"
"""


@pytest.fixture
def place(tmp_path: Path) -> RunPlace:
    return RunPlace(tmp_path / "objects", "own")


@pytest.fixture(scope="module")
def own_operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project") / "operators.py"
    path.write_text(OWN_OPERATORS)
    return path


@pytest.fixture(scope="module")
def runner(
    tmp_path_factory: pytest.TempPathFactory, own_operators: Path
) -> Iterator[LocalSparkRunner]:
    """One for the tests of this file, which do to it what they like."""
    folder = tmp_path_factory.mktemp("runner")
    with closing(LocalSparkRunner(folder, size=SMALL, modules=[str(own_operators)])) as found:
        yield found


@pytest.fixture
def runs(runner: LocalSparkRunner, place: RunPlace) -> Iterator[SparkRunnerHarness]:
    harness = SparkRunnerHarness(runner, lambda: closing(LocalSparkRunner(runner.folder)), place)
    yield harness
    harness.end_all()


def _java_of(process_id: int) -> psutil.Process:
    [found] = [
        each for each in psutil.Process(process_id).children() if each.name().startswith("java")
    ]
    return found


def _gone(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 30
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _rows_are_served(runs: SparkRunnerHarness) -> None:
    found = runs.ended(runs.start("rows"))
    assert found.state is RunState.SUCCESS, found.detail


def test_what_an_operator_prints_lies_beside_its_result_and_apart_from_others(
    runs: SparkRunnerHarness,
) -> None:
    requests = [runs.place.request("talk", {"name": name, "pause": 0.05}) for name in "ab"]
    for run_id in [runs.begin(each) for each in requests]:
        assert runs.ended(run_id).state is RunState.SUCCESS
    for name, request in zip("ab", requests, strict=True):
        assert runs.place.printed(request) == "".join(f"line {n} of {name}\n" for n in range(3))


def test_a_failure_is_told_in_the_detail_and_in_what_was_printed(runs: SparkRunnerHarness) -> None:
    request = runs.place.request("give_up")
    found = runs.ended(runs.begin(request))
    assert found.detail == "LabelsAway: the labels are away"
    assert "LabelsAway: the labels are away" in runs.place.printed(request)


def test_the_log_of_the_runner_repeats_no_statement_and_no_row(
    runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    request = runs.place.request("fail_on_secrets", {"word": "CANARY"})
    assert runs.ended(runs.begin(request)).state is RunState.SUCCESS
    assert runs.place.printed(request) == "6 failures\n"
    assert "CANARY" not in runner.log_file.read_text(encoding="utf-8")


def test_a_file_of_the_project_brings_operators_with_python_functions_of_their_own(
    runs: SparkRunnerHarness, own_operators: Path
) -> None:
    from trace_core.operators.catalog import load_catalog

    implementation = load_catalog([str(own_operators)])["halves"].implementation
    assert implementation is not None
    found = runs.ended(runs.start(implementation))
    assert found.state is RunState.SUCCESS, found.detail


def test_a_table_of_one_run_is_none_of_another(runs: SparkRunnerHarness) -> None:
    both = [runs.start("own_table", {"value": value}) for value in (3, 5)]
    for run_id in [*both, runs.start("own_table", {"value": 7})]:
        found = runs.ended(run_id)
        assert found.state is RunState.SUCCESS, found.detail


def test_what_a_run_leaves_in_the_session_is_gone_when_the_next_one_begins(
    runs: SparkRunnerHarness,
) -> None:
    assert runs.ended(runs.start("leave_behind", {"fail": True})).state is RunState.FAILED
    for _ in range(2):
        found = runs.ended(runs.start("leave_behind"))
        assert found.state is RunState.SUCCESS, found.detail


def test_operators_see_nothing_of_the_platforms_environment(
    place: RunPlace, runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    _rows_are_served(runs)
    assert runner.pid is not None
    for process in (psutil.Process(runner.pid), _java_of(runner.pid)):
        assert not [name for name in process.environ() if name.startswith(("TRACE_", "AWS_"))]


def test_a_runner_that_is_killed_in_the_middle_of_a_run_fails_that_run_alone(
    runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    _rows_are_served(runs)
    assert runner.pid is not None
    java = _java_of(runner.pid)
    request = runs.place.request("kill_runner")
    run_id = runs.begin(request)
    after = runs.start("rows")
    found = runs.ended(run_id)
    assert found.state is RunState.FAILED
    assert found.detail == (
        "the Spark runner ended while it ran; nothing that the run wrote counts"
    )
    # What it wrote is there, and without a result it does not count.
    assert list(runs.place.objects.rglob("output/**/*.parquet"))
    assert runs.place.result(request) is None
    assert runs.ended(after).state is not RunState.CANCELLED
    _rows_are_served(runs)
    assert _gone(java)
    assert runs.place.result(request) is None


def test_java_that_is_killed_in_the_middle_of_a_run_fails_it_and_is_started_again(
    runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    request = runs.place.request("kill_java")
    found = runs.ended(runs.begin(request))
    assert found.state is RunState.FAILED
    assert found.detail.startswith("Spark's Java machine died (signal 9)")
    assert runs.place.result(request) is None
    _rows_are_served(runs)


def test_java_that_is_killed_while_nothing_runs_costs_no_run(
    runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    _rows_are_served(runs)
    # Also again and again: a runner that has served is none that cannot live.
    for _ in range(2):
        assert runner.pid is not None
        _java_of(runner.pid).kill()
        _rows_are_served(runs)


def test_java_without_memory_ends_and_says_what_to_set(runs: SparkRunnerHarness) -> None:
    found = runs.ended(runs.start("out_of_memory"))
    assert found.state is RunState.FAILED
    assert "TRACE_SPARK_MEMORY" in found.detail
    _rows_are_served(runs)


def test_a_run_that_will_not_end_takes_the_runner_with_it(
    runner: LocalSparkRunner, runs: SparkRunnerHarness, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    run_id = runs.start("sleep_on", {"mark": str(mark)})
    runs.becomes(run_id, RunState.RUNNING)
    assert conformance.becomes(mark.exists, timedelta(minutes=1))
    time.sleep(0.2)  # into the wait
    before = runner.pid
    runs.runner.cancel(run_id)
    assert runs.becomes(run_id, RunState.CANCELLED).detail == "canceled"
    _rows_are_served(runs)
    assert runner.pid != before


def test_a_cancel_ends_what_a_run_does_in_threads_of_its_own_and_no_other_run(
    tmp_path: Path, place: RunPlace
) -> None:
    size = SparkSize(memory="512m", grace_seconds=60.0)
    with closing(LocalSparkRunner(tmp_path / "spark", size=size)) as runner:
        mark = tmp_path / "mark"
        run_id = runner.start(place.request("share_out", {"mark": str(mark)}))
        other = runner.start(place.request("spin"))
        becomes(runner, other, RunState.RUNNING)
        assert conformance.becomes(mark.exists, timedelta(minutes=1))
        before = runner.pid
        runner.cancel(run_id)
        assert becomes(runner, run_id, RunState.CANCELLED).detail == "canceled"
        assert (runner.status(other).state, runner.pid) == (RunState.RUNNING, before)
        runner.cancel(other)
        becomes(runner, other, RunState.CANCELLED)


def test_java_that_answers_nothing_any_more_ends_with_the_run_that_is_to_end(
    runner: LocalSparkRunner, runs: SparkRunnerHarness
) -> None:
    run_id = runs.start("crunch")
    runs.becomes(run_id, RunState.RUNNING)
    assert runner.pid is not None
    java = _java_of(runner.pid)
    java.suspend()
    try:
        runs.runner.cancel(run_id)
        assert runs.becomes(run_id, RunState.CANCELLED).detail == "canceled"
        assert _gone(java)
    finally:
        if java.is_running():
            java.kill()
    _rows_are_served(runs)


PLATFORM = """
import sys, time
from pathlib import Path
from emr_jobs.local_run import LocalRun
from emr_jobs.runner import Runner, take_over
from emr_jobs.warm_session import WarmSession
from tests.conformance import harness as conformance
from tests.conformance.spark_runs import RunPlace, becomes
from trace_core.adapters.lite.local_spark import LocalSparkRunner
from trace_core.ports.spark_runner import RunState

runner = LocalSparkRunner(Path(sys.argv[1]))
place = RunPlace(Path(sys.argv[2]), "first")
running = [runner.start(place.request("crunch")) for _ in range(2)]
waiting = runner.start(place.request("rows"))
for each in running:
    becomes(runner, each, RunState.RUNNING)
print(runner.pid, running[0], waiting, flush=True)
time.sleep(600)
"""


def test_a_platform_that_is_killed_takes_the_runner_with_it_and_finds_its_runs_again(
    tmp_path: Path,
) -> None:
    folder, objects = tmp_path / "spark", tmp_path / "objects"
    platform = subprocess.Popen(
        [sys.executable, "-c", PLATFORM, str(folder), str(objects)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert platform.stdout is not None
        process_id, running, waiting = platform.stdout.readline().split()
        processes = [psutil.Process(int(process_id)), _java_of(int(process_id))]
        platform.kill()
        platform.wait()
        assert all(_gone(each) for each in processes)
    finally:
        platform.kill()
        platform.wait()
        platform.stdout.close()  # type: ignore[union-attr]
    with closing(LocalSparkRunner(folder)) as runner:
        found = _ended(runner, running)
        assert found.state is RunState.FAILED
        assert "nothing that the run wrote counts" in found.detail
        assert _ended(runner, waiting).state is RunState.SUCCESS
    assert not list(objects.glob("runs/first/1/result.json"))


def test_a_runner_that_cannot_live_fails_its_runs_and_says_why(
    tmp_path: Path, place: RunPlace
) -> None:
    with closing(LocalSparkRunner(tmp_path / "spark", modules=["no.such.module"])) as runner:
        found = _ended(runner, runner.start(place.request("rows")))
    assert found.state is RunState.FAILED
    assert found.detail == "Spark cannot be started: there is no module no.such.module"


def test_a_runner_that_ends_at_once_is_given_up_after_some_tries(
    tmp_path: Path, place: RunPlace
) -> None:
    size = SparkSize(idle_seconds="never")  # type: ignore[arg-type]
    with closing(LocalSparkRunner(tmp_path / "spark", size=size)) as runner:
        found = _ended(runner, runner.start(place.request("rows")))
    assert found.state is RunState.FAILED
    assert "ended 3 times in a row (exit 1)" in found.detail
    assert "could not convert string to float" in found.detail


def test_a_runner_with_nothing_to_do_ends_and_is_started_when_it_is_needed(
    tmp_path: Path, place: RunPlace
) -> None:
    size = SparkSize(memory="512m", idle_seconds=1.0)
    with closing(LocalSparkRunner(tmp_path / "spark", size=size)) as runner:
        assert runner.pid is None, "nobody asked for Spark yet"
        runner.warm()
        first = runner.pid
        assert first is not None
        deadline = time.monotonic() + 60
        while runner.pid is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        runner.warm()
        assert runner.pid not in (None, first)


def test_a_runner_that_hangs_does_not_make_the_platform_hang(tmp_path: Path) -> None:
    with closing(LocalSparkRunner(tmp_path / "spark")) as runner:
        runner.warm()
        assert runner.pid is not None
        hanging = psutil.Process(runner.pid)
        hanging.suspend()
        began = time.monotonic()
        for _ in range(70_000):  # more than the pipe holds
            runner.warm()
        assert time.monotonic() - began < 30
        hanging.resume()


def test_a_closed_runner_takes_nothing(tmp_path: Path, place: RunPlace) -> None:
    runner = LocalSparkRunner(tmp_path / "spark")
    runner.close()
    assert runner.room() == 0
    with pytest.raises(Unavailable):
        runner.start(place.request("rows"))


def test_runs_are_forgotten_after_a_week(tmp_path: Path, place: RunPlace) -> None:
    runs = SparkRuns(tmp_path / "runs.sqlite")
    request: RunRequest = place.request("rows")
    run_id = runs.submit(request, 1000.0)
    runs.end(run_id, RunState.FAILED, "it failed", 2000.0)
    runs.forget(2000.0)
    assert runs.find(run_id) is not None
    runs.forget(2000.1)
    assert runs.find(run_id) is None
    runs.close()


def test_a_run_whose_runner_died_ended_then_and_not_when_the_next_one_began(
    tmp_path: Path, place: RunPlace
) -> None:
    with closing(SparkRuns(tmp_path / "runs.sqlite")) as runs:
        started, waiting = (runs.submit(place.request("rows"), 1.0) for _ in range(2))
        assert runs.grant(started, 2.0) and runs.schedule(started) and runs.start(started, 3.0)
        month_later = 3.0 + 30 * 86400
        take_over(runs, month_later, alive_at=13.5)
        found = runs.find(started)
        assert found is not None, "it is told once more, however long ago it was"
        assert (found.state, found.ended_at) == (RunState.FAILED, 13.5)
        found = runs.find(waiting)
        assert found is not None and found.ended_at is None


def test_a_run_begins_once_and_not_after_it_was_asked_to_end(
    tmp_path: Path, place: RunPlace
) -> None:
    with closing(SparkRuns(tmp_path / "runs.sqlite")) as runs:
        first, second = (runs.submit(place.request("rows"), 1.0) for _ in range(2))
        for each in (first, second):
            assert runs.grant(each, 2.0)
            assert runs.schedule(each)
        assert runs.start(first, 3.0)
        assert not runs.start(first, 4.0)
        runs.ask_to_end(second, "canceled")
        assert not runs.start(second, 4.0)
        assert runs.end(second, RunState.CANCELLED, "canceled", 5.0)
        assert not runs.end(second, RunState.SUCCESS, "", 6.0)
        found = runs.find(second)
        assert found is not None
        assert (found.state, found.ended_at) == (RunState.CANCELLED, 5.0)


def test_a_run_that_begins_as_its_time_to_wait_is_over_is_not_ended_behind_its_back(
    tmp_path: Path, place: RunPlace
) -> None:
    with closing(SparkRuns(tmp_path / "runs.sqlite")) as runs:
        run_id = runs.submit(place.request("rows", queue_seconds=1), 1.0)
        assert runs.grant(run_id, 2.0) and runs.schedule(run_id)
        looked_at = runs.find(run_id)
        assert looked_at is not None
        session = WarmSession(tmp_path, 1, "512m", ())
        runner = Runner(runs, session, places=1, idle=60.0, grace=60.0)
        assert runs.start(run_id, 3.0), "it began after that look"
        active = LocalRun(looked_at, runs, session.get, lambda: None)
        runner._end(looked_at, active, "it waited longer than 1 s to begin")
        found = runs.find(run_id)
        assert found is not None
        assert (found.state, found.ended_at) == (RunState.RUNNING, None)


def _ended(runner: LocalSparkRunner, run_id: str) -> RunStatus:
    return becomes(runner, run_id, RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)
