"""What the data database has committed becomes known, whoever died or was canceled since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.commit_world import FORK, CommitWorld
from tests.dataset_layouts import Definition, PostgresLayout, block
from tests.factories import World
from tests.postgres.data_world import DataWorld
from trace_core.identity.model import SYSTEM
from trace_core.kernel import limits
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Lease as Run
from trace_core.registry.commits import pins_of
from trace_core.storage.commits import Committed, DataCommit
from trace_core.storage.model import Pin
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.versions import VersionTables
from trace_core.tasks.claim import Claimed
from trace_core.tasks.reconcile import DataRecords, ReconcileReport, Reconciliation

GRACE = limits.DEFAULT_TIMINGS.sweep_grace


@dataclass
class TwoDatabases:
    """b has two outputs with rows in the data database; the test is its writer."""

    world: CommitWorld
    data: DataWorld
    outputs: list[PostgresLayout]

    def sweep(self, limit: int = 200, records: DataRecords | None = None) -> ReconcileReport:
        world = self.world
        found = records or self.data.output
        return Reconciliation(
            world.state, world.clock, world.ids, world.waker, lambda: found
        ).run_once(limit)

    def pins(self, claim: Claimed) -> tuple[Pin, ...]:
        with self.world.state.transaction("test") as tx:
            return pins_of(tx, Run(claim.task_id, claim.attempt, claim.lease_sequence))

    def write(self, claim: Claimed, scope: Scope, *, outputs: int = 1, step: int = 0) -> Committed:
        fence = self.data.output.advance_fence(claim.task_id, claim.attempt, claim.lease_sequence)
        rows = tuple(
            layout.rows_output(scope, [block((scope.range or (0, 0))[0], "x")], index)
            for index, layout in enumerate(self.outputs[:outputs])
        )
        body = {"status": "Completed"}
        return self.data.output.commit(DataCommit(fence, rows, self.pins(claim), body, step=step))

    def unmarked(self) -> int:
        return len(self.data.output.unregistered())


@pytest.fixture
def two(commit_world: CommitWorld, data_world: DataWorld) -> TwoDatabases:
    commit_world.deploy(FORK)
    outputs = []
    for index in (0, 1):
        commit_world.keep("b", "postgres", index=index)
        dataset, version = commit_world.output("b", index)
        one = Definition(DatasetUuid(dataset), DatasetVersion(version))
        VersionTables(data_world.data).ensure_version(one.table)
        layout = data_world.layout()
        outputs.append(PostgresLayout(one, data_world.output, layout.reader, data_world.ids))
    source = commit_world.take("a")
    commit_world.accept(source, [commit_world.event("a", cursor) for cursor in range(1, 6)])
    return TwoDatabases(commit_world, data_world, outputs)


def test_a_commit_whose_attempt_died_is_registered_and_announced(two: TwoDatabases) -> None:
    world = two.world
    task = world.take("b")
    two.write(task, Scope(cursor=5), outputs=2)
    world.pass_time(seconds=GRACE.total_seconds())
    world.waker.woken.clear()
    assert two.sweep() == ReconcileReport(registered=2, marked=2)
    for index in (0, 1):
        (commit,) = world.commits("b", index)
        assert (commit.task_id, commit.attempt, commit.lease_sequence) == (task.task_id, 1, 1)
        assert [pin["number"] for pin in commit.input_pins] == [
            pin.number for pin in two.pins(task)
        ]
        assert world.announced("b", index) == [(1, "c5", False)]
    assert world.ready("c") == 1 and world.waker.woken
    assert two.unmarked() == 0


def test_sweeping_twice_changes_nothing_more(two: TwoDatabases) -> None:
    world = two.world
    two.write(world.take("b"), Scope(cursor=5))
    world.pass_time(minutes=5)
    assert two.sweep().registered == 1
    assert two.sweep() == ReconcileReport()
    assert len(world.commits("b")) == len(world.announced("b")) == 1


def test_a_commit_of_a_canceled_task_is_registered_all_the_same(two: TwoDatabases) -> None:
    world = two.world
    task = world.take("b")
    two.write(task, Scope(cursor=5))
    world.admin.cancel(world.org, task.task_id, SYSTEM)
    assert world.report(task, "Canceled").status == "Canceled"
    world.pass_time(minutes=5)
    assert two.sweep().registered == 1
    assert world.announced("b") == [(1, "c5", False)]
    assert world.status_of(task) == "Canceled"


def test_the_retry_then_reports_what_is_known(two: TwoDatabases) -> None:
    world = two.world
    first = world.take("b")
    two.write(first, Scope(cursor=5))
    world.pass_time(minutes=3)
    world.reaper.run_once()
    assert two.sweep().registered == 1
    world.pass_time(minutes=20)
    world.dispatcher.run_once()
    second = world.take("b")
    assert (second.task_id, second.attempt) == (first.task_id, 2)
    output = world.recorded(second, "b", Scope(cursor=5), 1, by=(1, 1))
    assert world.complete(second, outputs=[output]).status == "Completed"
    assert len(world.commits("b")) == len(world.announced("b")) == 1


def test_what_was_reported_is_only_marked(two: TwoDatabases) -> None:
    world = two.world
    task = world.take("b")
    two.write(task, Scope(cursor=5))
    world.complete(task, outputs=[world.recorded(task, "b", Scope(cursor=5), 1)])
    assert two.unmarked() == 1
    assert two.sweep() == ReconcileReport(marked=1)
    assert two.unmarked() == 0 and len(world.announced("b")) == 1


def test_an_attempt_that_may_be_about_to_report_is_left_alone(two: TwoDatabases) -> None:
    world = two.world
    task = world.take("b")
    two.write(task, Scope(cursor=5))
    world.clock.advance(GRACE - timedelta(seconds=1))
    assert two.sweep() == ReconcileReport()
    assert world.commits("b") == []


def test_commits_are_announced_in_order_whoever_died(two: TwoDatabases) -> None:
    world = two.world
    dead, alive = world.take("b"), world.take("b")
    two.write(dead, Scope(cursor=1))
    two.write(alive, Scope(cursor=2))
    world.complete(alive, outputs=[world.recorded(alive, "b", Scope(cursor=2), 2)])
    assert world.announced("b") == [] and world.counter("b").readable == 0
    world.pass_time(minutes=5)
    assert two.sweep() == ReconcileReport(registered=1, marked=2)
    assert world.announced("b") == [(1, "c1", False), (2, "c2", False)]


def test_a_crash_before_the_mark_is_made_good(two: TwoDatabases) -> None:
    world = two.world
    two.write(world.take("b"), Scope(cursor=5))
    world.pass_time(minutes=5)

    class Dies(PostgresOutput):
        def mark_registered(self, commits: object) -> None:
            raise Unavailable

    with pytest.raises(Unavailable):
        two.sweep(records=Dies(two.data.data, world.clock))
    assert len(world.announced("b")) == 1 and two.unmarked() == 1
    assert two.sweep() == ReconcileReport(marked=1)
    assert len(world.announced("b")) == 1


def test_one_that_does_not_fit_holds_up_nothing_behind_it(
    two: TwoDatabases, caplog: pytest.LogCaptureFixture
) -> None:
    world = two.world
    # A version that this state database never had, before all others.
    one = Definition(DatasetUuid(UUID(int=1)), DatasetVersion(UUID(int=1)))
    VersionTables(two.data.data).ensure_version(one.table)
    stray = replace(two.outputs[0], definition=one)
    for cursor in (1, 2):
        stray.commit(Scope(cursor=cursor), [block(cursor, "x")])
    for cursor in (1, 2, 3):
        two.write(world.take("b"), Scope(cursor=cursor))
    world.pass_time(minutes=5)
    assert two.sweep(limit=2) == ReconcileReport(registered=2, marked=2, refused=2)
    assert two.sweep(limit=2) == ReconcileReport(registered=1, marked=1, refused=2)
    assert len(world.announced("b")) == 3
    assert "is not known here" in caplog.text
    assert two.unmarked() == 2


def test_without_rows_in_the_data_database_it_is_not_asked(chain: World) -> None:
    def never() -> DataRecords:
        raise AssertionError("nobody needs it")

    sweep = Reconciliation(chain.state, chain.clock, chain.ids, chain.waker, never)
    assert sweep.run_once() == ReconcileReport()
