"""Cleanup of staging: closed first, then deleted; never what was committed, never what runs."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.commit_world import FORK, CommitWorld
from trace_core.database.state import OPTIONS
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import StaleAttempt
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectInfo
from trace_core.tasks.claim import Claimed
from trace_core.tasks.staging import SQL, StagingCleanup, StagingReport

FIVE, SIX = Scope(cursor=5), Scope(cursor=6)
GivenUp = tuple[CommitWorld, Claimed, list[dict[str, object]]]


def _cleanup(world: CommitWorld) -> StagingReport:
    return StagingCleanup(world.state, world.clock, world.objects).run_once()


def _keys(world: CommitWorld, job: str) -> list[str]:
    dataset, _ = world.output(job)
    found = world.objects.list(f"org/{world.org}/dataset/{dataset}/")
    return [each.key.rpartition("/staging/")[2].partition("/")[2] for each in found]


def _give_up(world: CommitWorld) -> None:
    world.pass_time(minutes=3)
    world.reaper.run_once()


@pytest.fixture
def given_up(fork: CommitWorld) -> GivenUp:
    """An attempt that wrote, and was not heard of again; its retry waits."""
    source = fork.take("a")
    fork.report(source, "Yielded", outputs=[fork.written(source, "a", FIVE)])
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE)]
    _give_up(fork)
    return fork, task, outputs


def test_a_week_after_its_end_what_an_attempt_wrote_is_deleted(
    given_up: GivenUp,
) -> None:
    world, _, _ = given_up
    world.pass_time(days=6, hours=23)
    assert _cleanup(world) == StagingReport()
    assert len(_keys(world, "b")) == 2
    world.pass_time(hours=2)
    assert _cleanup(world) == StagingReport(attempts=1, deleted=2)
    assert _keys(world, "b") == []
    assert _cleanup(world) == StagingReport()


def test_after_that_its_late_completion_is_refused(
    given_up: GivenUp,
) -> None:
    world, task, outputs = given_up
    world.pass_time(days=8)
    _cleanup(world)
    refused = world.complete(task, outputs=outputs).error
    assert isinstance(refused, StaleAttempt) and "deleted" in refused.message
    assert isinstance(world.report(task, "Failed").error, StaleAttempt)
    assert isinstance(world.report(task, "Superseded").error, StaleAttempt)
    assert world.commits("b") == [] and world.status_of(task) == "Failed"
    world.dispatcher.run_once()
    again = world.take("b")
    done = world.complete(again, outputs=[world.written(again, "b", FIVE)])
    assert done.status == "Completed"


def test_closed_and_not_yet_deleted_is_refused_already(
    given_up: GivenUp,
) -> None:
    """The order that counts: if it were deleted first, a completion could slip in between."""
    world, task, outputs = given_up
    world.pass_time(days=8)
    errors: list[object] = []

    class Watching:
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            errors.append(world.complete(task, outputs=outputs).error)
            return world.objects.list(prefix)

        def delete(self, key: str) -> None:
            world.objects.delete(key)

    store = Watching()
    StagingCleanup(world.state, world.clock, store).run_once()  # type: ignore[arg-type]
    assert errors and all(isinstance(each, StaleAttempt) for each in errors)
    assert _keys(world, "b") == []


def test_a_late_completion_before_that_keeps_its_objects(
    given_up: GivenUp,
) -> None:
    world, task, outputs = given_up
    world.pass_time(days=6)
    assert world.complete(task, outputs=outputs).status == "Completed"
    world.pass_time(days=30)
    assert _cleanup(world) == StagingReport()
    assert len(_keys(world, "b")) == 2


def test_a_late_completion_that_is_under_way_is_left_alone(
    given_up: GivenUp,
) -> None:
    world, task, outputs = given_up
    world.pass_time(days=8)
    reports: list[StagingReport] = []

    def meanwhile(name: str) -> None:
        if name == "results:registered":
            world.state.crash_points = lambda _name: None
            reports.append(_cleanup(world))

    world.state.crash_points = meanwhile
    assert world.complete(task, outputs=outputs).status == "Completed"
    assert reports == [StagingReport()]
    assert _cleanup(world) == StagingReport()
    assert len(_keys(world, "b")) == 2


def test_what_a_failed_attempt_had_committed_before_stays(fork: CommitWorld) -> None:
    source = fork.take("a")
    fork.commit(source, [fork.written(source, "a", FIVE)])
    fork.written(source, "a", SIX)
    fork.report(source, "Failed")
    fork.pass_time(days=8)
    assert _cleanup(fork) == StagingReport(attempts=1, deleted=2, kept=2)
    assert sorted(_keys(fork, "a")) == ["1-1/0/5/manifest.json", "1-1/0/5/rows.parquet"]
    assert fork.content("a", FIVE) == ""


def test_what_runs_is_never_touched(
    given_up: GivenUp,
) -> None:
    world, first, _ = given_up
    world.pass_time(days=8)
    world.dispatcher.run_once()
    second = world.take("b")
    assert (second.task_id, second.attempt) == (first.task_id, 2)
    outputs = [world.written(second, "b", FIVE)]
    assert _cleanup(world).deleted == 2
    assert [key[:4] for key in _keys(world, "b")] == ["2-2/", "2-2/"]
    assert world.complete(second, outputs=outputs).status == "Completed"


def test_an_attempt_whose_lease_is_alive_is_not_closed(
    given_up: GivenUp,
) -> None:
    """No rule of attempts lets that happen; if one is broken, nothing is deleted for it."""
    world, _, _ = given_up
    world.pass_time(days=8)
    world.dispatcher.run_once()
    second = world.take("b")
    world.state.write(
        "test",
        "UPDATE leases SET attempt = 1 WHERE task_id = %(task)s",
        {"task": second.task_id},
    )
    assert _cleanup(world) == StagingReport()
    assert len(_keys(world, "b")) == 2


@pytest.mark.parametrize("status", ["Failed", "Superseded", "Canceled"])
def test_other_ends_without_success_are_cleaned_too(fork: CommitWorld, status: str) -> None:
    source = fork.take("a")
    fork.report(source, "Yielded", outputs=[fork.written(source, "a", FIVE)])
    task = fork.take("b")
    fork.written(task, "b", FIVE)
    if status == "Canceled":
        fork.admin.cancel(fork.org, task.task_id, SYSTEM)
    assert fork.report(task, status).status == status
    fork.pass_time(days=8)
    assert _cleanup(fork).deleted == 2


def test_a_crash_between_closing_and_deleting_is_made_good(
    given_up: GivenUp,
) -> None:
    world, _, _ = given_up
    world.pass_time(days=8)

    def crash(name: str) -> None:
        if name == "mark_cleaned:before_commit":
            raise RuntimeError

    world.state.crash_points = crash
    with pytest.raises(RuntimeError):
        _cleanup(world)
    world.state.crash_points = lambda _name: None
    assert _cleanup(world) == StagingReport(attempts=1, deleted=0)
    assert _cleanup(world) == StagingReport()


def test_jobs_without_objects_are_not_looked_at(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK)
    source = commit_world.take("a")
    commit_world.report(source, "Failed")
    commit_world.pass_time(days=8)
    assert _cleanup(commit_world) == StagingReport()


def test_the_search_reads_what_is_not_cleaned_by_its_index(fork: CommitWorld) -> None:
    with psycopg.connect(fork.state.dsn, options=OPTIONS) as connection:
        now = fork.clock.now()
        rows = connection.execute(
            "EXPLAIN " + SQL["close_attempts"],  # type: ignore[arg-type]
            {"now": now, "ended_before": now, "limit": 100},
        ).fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on attempts" not in plan and "job_id" in plan, plan
