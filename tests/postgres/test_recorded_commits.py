"""Commits of the data database: registered in any order, announced in theirs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.commit_world import COLUMNS, FORK, CommitWorld
from tests.dataset_layouts import table_of
from tests.postgres.data_world import DataWorld
from trace_core.dag.model import UpdateStrategy
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import CommitDiffers
from trace_core.storage.commits import DataCommit, RowsOutput
from trace_core.storage.recorded import RecordedCommits
from trace_core.storage.versions import VersionTable
from trace_core.tasks.claim import Claimed
from trace_core.tasks.complete import Completions

FIVE, SIX = Scope(cursor=5), Scope(cursor=6)


@pytest.fixture
def world(commit_world: CommitWorld) -> CommitWorld:
    """As `fork`, with b in the data database, where its commits get their numbers."""
    commit_world.deploy(FORK)
    commit_world.keep("b", "postgres")
    source = commit_world.take("a")
    commit_world.accept(source, [commit_world.event("a", cursor) for cursor in range(1, 6)])
    return commit_world


def test_a_reported_commit_is_registered_and_announced(world: CommitWorld) -> None:
    task = world.take("b")
    assert world.complete(task, outputs=[world.recorded(task, "b", FIVE, 1)]).status == "Completed"
    (commit,) = world.commits("b")
    assert (commit.number, commit.scope, commit.task_id) == (1, "c5", task.task_id)
    assert len(commit.input_pins) == 2
    assert world.announced("b") == [(1, "c5", False)]
    assert world.counter("b").readable == 1
    assert world.ready("c") == 1


def test_it_is_announced_only_once_all_before_it_are_registered(world: CommitWorld) -> None:
    first, second, third = (world.take("b") for _ in range(3))

    def readable() -> tuple[int, int]:
        return world.counter("b").readable, world.ready("c")

    world.complete(third, outputs=[world.recorded(third, "b", Scope(cursor=3), 3)])
    assert readable() == (0, 0)
    world.complete(first, outputs=[world.recorded(first, "b", Scope(cursor=1), 1)])
    assert readable() == (1, 1)
    world.complete(second, outputs=[world.recorded(second, "b", Scope(cursor=2), 2)])
    assert readable() == (3, 3)
    assert world.announced("b") == [(1, "c1", False), (2, "c2", False), (3, "c3", False)]
    producers = world.rows(
        "SELECT e.producer_task_id FROM events e JOIN commits c"
        " ON c.dataset_version = e.dataset_version AND c.number = e.number ORDER BY e.event_id"
    )
    ids = [each.producer_task_id for each in producers]
    assert ids == [first.task_id, second.task_id, third.task_id]


def _register(world: CommitWorld, claims: list[Claimed], order: Any) -> list[Any]:
    """Of four commits, whatever their order: 5 is written, rewritten, taken into a range, and
    written again."""
    wanted = {
        1: (FIVE, 0),
        2: (FIVE, 1),
        3: (Scope.of_range(0, 9), 2),
        4: (Scope.of_range(0, 9), 3),
    }
    for number in order:
        scope, replaces = wanted[number]
        task = claims[number - 1]
        output = world.recorded(task, "b", scope, number, replaces=replaces)
        assert world.complete(task, outputs=[output]).status == "Completed"
    return [(each.number, each.replaced_at) for each in world.commits("b")]


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3, 4))))
def test_any_order_of_registration_gives_the_same_commits(
    world: CommitWorld, order: tuple[int, ...]
) -> None:
    claims = [world.take("b") for _ in range(4)]
    assert _register(world, claims, order) == [(1, 2), (2, 3), (3, 4), (4, None)]
    assert world.announced("b") == [
        (1, "c5", False),
        (2, "c5", True),
        (3, "p0-9", True),
        (4, "p0-9", True),
    ]
    notes = world.rows("SELECT number, reason FROM invalidations ORDER BY number")
    assert [each.reason for each in notes] == [
        "commit 2 replaced 1",
        "commit 3 replaced 2",
        "commit 4 replaced 3",
    ]


def test_rows_that_are_replaced_one_by_one_close_no_commit_and_are_told_all_the_same(
    world: CommitWorld,
) -> None:
    first, second = world.take("b"), world.take("b")
    wide = Scope.of_range(0, 9)
    world.complete(first, outputs=[world.recorded(first, "b", wide, 1)])
    world.complete(second, outputs=[world.recorded(second, "b", FIVE, 2, replaces=1)])
    assert [each.replaced_at for each in world.commits("b")] == [None, None]
    assert world.announced("b") == [(1, "p0-9", False), (2, "c5", True)]


def test_a_retry_reports_what_an_earlier_attempt_committed(world: CommitWorld) -> None:
    first = world.take("b")
    source = world.rows("SELECT task_id FROM leases WHERE of_source")[0].task_id
    world.pass_time(minutes=3)
    world.reaper.run_once()
    world.pass_time(minutes=20)
    world.dispatcher.run_once()
    again = world.take("a")
    assert again.task_id == source
    world.accept(again, [world.event("a", 99)])
    second = world.take("b")
    assert (second.task_id, second.attempt) == (first.task_id, 2)
    output = world.recorded(second, "b", FIVE, 1, by=(1, 1))
    assert world.complete(second, outputs=[output]).status == "Completed"
    (commit,) = world.commits("b")
    assert (commit.attempt, commit.lease_sequence) == (1, 1)
    read = {pin["dataset_uuid"]: pin["number"] for pin in commit.input_pins}
    assert read[str(world.output("a")[0])] == 5, "the pins of the attempt that wrote, not 6"
    (event,) = world.rows("SELECT attempt FROM events WHERE producer_task_id = %(t)s",
                          t=first.task_id)  # fmt: skip
    assert event.attempt == 1


def test_reported_twice_it_is_registered_once(world: CommitWorld) -> None:
    task = world.take("b")
    output = world.recorded(task, "b", FIVE, 1)
    world.commit(task, [output])
    world.commit(task, [output])
    assert world.complete(task, outputs=[output]).status == "Completed"
    assert len(world.commits("b")) == len(world.announced("b")) == 1


def test_a_number_that_another_commit_has_is_refused(world: CommitWorld) -> None:
    first, second = world.take("b"), world.take("b")
    world.complete(first, outputs=[world.recorded(first, "b", FIVE, 1)])
    refused = world.complete(second, outputs=[world.recorded(second, "b", FIVE, 1)])
    assert isinstance(refused.error, CommitDiffers)
    refused = world.complete(second, outputs=[world.recorded(second, "b", SIX, 1)])
    assert isinstance(refused.error, CommitDiffers)
    assert len(world.commits("b")) == 1


def test_a_report_without_its_record_is_refused(world: CommitWorld) -> None:
    task = world.take("b")
    whole = world.recorded(task, "b", FIVE, 1)
    bare = {k: v for k, v in whole.items() if k in ("location", "output_index", "cursor")
            or k.startswith("dataset_")}  # fmt: skip
    refused = world.complete(task, outputs=[bare]).error
    assert isinstance(refused, Invalid) and refused.fields["field"] == "commit_number"
    with pytest.raises(ValueError, match="belong together"):
        world.complete(task, outputs=[{**whole, "written_by": None}])
    later = {**whole, "written_by": {"attempt": 2, "lease_sequence": 1}}
    assert isinstance(world.complete(task, outputs=[later]).error, Invalid)


def test_append_commits_are_told_as_new(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("b", "postgres", "append")
    source = commit_world.take("a")
    commit_world.accept(source, [commit_world.event("a", cursor) for cursor in (1, 2)])
    for number in (1, 2):
        task = commit_world.take("b")
        output = commit_world.recorded(task, "b", FIVE, number, replaces=number - 1)
        commit_world.complete(task, outputs=[output])
    assert commit_world.announced("b") == [(1, "c5", False), (2, "c5", False)]
    assert [each.replaced_at for each in commit_world.commits("b")] == [None, None]


# Against the data database ----------------------------------------------------------------------


@pytest.fixture
def recorded(world: CommitWorld, data_world: DataWorld) -> CommitWorld:
    """As `world`, where the data database is asked, and has a table for b."""
    dataset, version = world.output("b")
    table = VersionTable(
        DatasetUuid(dataset), DatasetVersion(version), COLUMNS, UpdateStrategy.REPLACE
    )
    data_world.tables.ensure_version(table)
    world.completions = Completions(
        world.state, world.clock, world.ids, world.waker, world.jitter,
        read_records=RecordedCommits(lambda: data_world.data),
    )  # fmt: skip
    return world


def _commit(world: CommitWorld, data: DataWorld, task: Claimed, scope: Scope) -> int:
    dataset, version = world.output("b")
    fence = data.output.advance_fence(TaskId(task.task_id), task.attempt, task.lease_sequence)
    rows = table_of([{"cursor": 5, "value": "x"}], COLUMNS)
    output = RowsOutput(0, DatasetUuid(dataset), DatasetVersion(version), scope, rows)
    write = DataCommit(fence, (output,), (), {"status": "Completed"})
    return data.output.commit(write).commits[0].number


def test_a_reported_commit_is_compared_with_the_data_database(
    recorded: CommitWorld, data_world: DataWorld
) -> None:
    first, second = recorded.take("b"), recorded.take("b")
    number = _commit(recorded, data_world, first, FIVE)
    # Of another task, of another number, scope or predecessor: none of it is registered.
    for wrong in (
        recorded.recorded(second, "b", FIVE, number),
        recorded.recorded(second, "b", FIVE, number + 1),
    ):
        error = recorded.complete(second, outputs=[wrong]).error
        assert error is not None and error.code == "CommitUnknown"
    for wrong in (
        recorded.recorded(first, "b", SIX, number),
        recorded.recorded(first, "b", FIVE, number, replaces=3),
        recorded.recorded(first, "b", FIVE, 0x7FFF),
    ):
        error = recorded.complete(first, outputs=[wrong]).error
        assert error is not None and error.code == "CommitUnknown"
    assert recorded.commits("b") == [] and recorded.counter("b").readable == 0
    done = recorded.complete(first, outputs=[recorded.recorded(first, "b", FIVE, number)])
    assert done.status == "Completed" and recorded.counter("b").readable == number
