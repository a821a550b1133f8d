"""A check that finds a scope bad: readers are told, the producer writes it again, and it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.spark_world import DAG, ROWS, SparkWorld
from trace_core.kernel import limits
from trace_core.kernel.ids import Ids
from trace_core.kernel.scopes import Scope
from trace_core.ports.spark_runner import RunState
from trace_core.spark.wire import SparkInvalidation


@pytest.fixture
def world(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[SparkWorld]:
    found = SparkWorld(state_dsn, None, tmp_path, manual_clock, ids, DAG)
    yield found
    found.close()


def _play(world: SparkWorld, bad: bool) -> str:
    """Do what waits: `work` writes rows, `next` checks them; answers which one it was."""
    world.app.dispatcher.run_once()
    world.relay()
    open_runs = [name for name, run in world.runner.runs.items() if not run.state.has_ended]
    if not open_runs:
        return ""
    run_id = open_runs[0]
    job = world.runner.payload(run_id).job
    said = [SparkInvalidation("work", Scope.of_range(1, 2), "a gap")]
    world.runner.move(RunState.RUNNING, run_id)
    world.watch()
    world.runner.succeed(ROWS, run_id=run_id, invalidations=said if job == "next" and bad else ())
    world.watch()
    return job


def _declared(world: SparkWorld) -> int:
    (row,) = world.rows("SELECT count(*) AS n FROM invalidations WHERE source = 'task'")
    return int(row.n)


def test_a_bad_scope_is_written_again_by_its_producer(world: SparkWorld) -> None:
    world.ask()
    assert [_play(world, True), _play(world, True)] == ["work", "next"]
    assert _declared(world) == 1
    jobs = [_play(world, False) for _ in range(4)]
    assert jobs.count("work") == 1, "once more"
    assert len(world.commits()) == 2 and world.commits()[0].replaced_at is not None
    # As a reader that was told, and of the rewrite.
    assert jobs.count("next") == 2
    assert _play(world, False) == ""


def test_a_check_that_always_fails_ends(world: SparkWorld) -> None:
    world.ask()
    jobs = []
    while job := _play(world, True):
        jobs.append(job)
        assert len(jobs) < 40, "it goes on for ever"
    assert _declared(world) == limits.TASK_INVALIDATIONS_MAX
    assert jobs.count("work") == 1 + limits.TASK_INVALIDATIONS_MAX


def test_the_same_report_twice_is_one(world: SparkWorld) -> None:
    world.ask()
    _play(world, True)
    world.app.dispatcher.run_once()
    world.relay()
    run_id = world.runner.last
    world.runner.move(RunState.RUNNING, run_id)
    said = SparkInvalidation("work", Scope.of_range(1, 2), "a gap")
    world.runner.succeed(ROWS, run_id=run_id, invalidations=[said])
    world.crash_at = "close_run:before_commit"
    with pytest.raises(BaseException, match="close_run"):
        world.watch()
    assert _declared(world) == 1
    world.watch(seconds=61)
    assert _declared(world) == 1
    assert not world.rows("SELECT 1 FROM spark_runs WHERE closed_at IS NULL")


def test_a_reason_that_quotes_what_was_read_is_told_in_characters_that_can_be_stored(
    world: SparkWorld,
) -> None:
    world.ask()
    _play(world, True)
    world.app.dispatcher.run_once()
    world.relay()
    run_id = world.runner.last
    world.runner.move(RunState.RUNNING, run_id)
    said = SparkInvalidation("work", Scope.of_range(1, 2), "the name is one\x00\ud800")
    world.runner.succeed(ROWS, run_id=run_id, invalidations=[said])
    world.watch()
    (row,) = world.rows("SELECT reason FROM invalidations WHERE source = 'task'")
    assert row.reason == "the name is one\\x00\\ud800"
    assert not world.rows("SELECT 1 FROM spark_runs WHERE closed_at IS NULL")
