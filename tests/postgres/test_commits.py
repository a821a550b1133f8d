"""Commits: registered under the fence, numbered in order, announced together."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.commit_world import COLUMNS, FORK, CommitWorld
from trace_core.dag.model import Column
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import (
    Invalid,
    StaleAttempt,
    TaskCanceled,
)
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import CommitDiffers
from trace_core.registry.model import ColumnsDiffer, OutputsOverlap
from trace_core.registry.pins import PinResolver
from trace_core.storage.errors import ManifestInvalid, PartialOverlap
from trace_core.storage.model import Pin
from trace_core.tasks.announcements import ForeignOutput, UncommittedScope
from trace_core.tasks.claim import Claimed
from trace_core.tasks.outputs import ForeignLocation

FIVE, SIX = Scope(cursor=5), Scope(cursor=6)
RANGE = Scope.of_range(0, 9)


def _feed(world: CommitWorld, *scopes: Scope) -> Claimed:
    """The source's slice, running, after it committed these scopes."""
    source = world.take("a")
    for scope in scopes:
        world.commit(source, [world.written(source, "a", scope)])
    return source


def _yield(world: CommitWorld, source: Claimed, **fields: Any) -> None:
    assert world.report(source, "Yielded", **fields).status == "Yielded"


# Registered and announced ----------------------------------------------------------------------


def test_a_commit_is_registered_numbered_and_announced(fork: CommitWorld) -> None:
    source = fork.take("a")
    done = fork.commit(source, [fork.written(source, "a", FIVE)])
    assert [each.commit_number for each in done.commits] == [1]
    assert (done.accepted, done.tasks_made) == (1, 1)
    (commit,) = fork.commits("a")
    assert (commit.number, commit.scope, commit.replaces, commit.replaced_at) == (1, "c5", 0, None)
    assert (commit.task_id, commit.attempt, commit.lease_sequence) == (source.task_id, 1, 1)
    assert commit.row_count == 1 and commit.bytes == len(b"a c5 ") and commit.objects
    assert fork.announced("a") == [(1, "c5", False)]
    counter = fork.counter("a")
    assert (counter.last_number, counter.readable, counter.max_end) == (1, 1, 5)


def test_all_outputs_of_one_completion_are_registered_and_announced_together(
    fork: CommitWorld,
) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE), fork.written(task, "b", FIVE, index=1)]
    assert fork.complete(task, outputs=outputs).status == "Completed"
    for index in (0, 1):
        assert fork.announced("b", index) == [(1, "c5", False)]
        assert [each.task_id for each in fork.commits("b", index)] == [task.task_id]
    assert fork.ready("c") == 1


def test_one_wrong_output_leaves_nothing_of_the_others(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE), fork.written(task, "b", FIVE, index=1)]
    outputs[1]["location"] = outputs[1]["location"].replace("manifest.json", "other.json")
    assert isinstance(fork.complete(task, outputs=outputs).error, ManifestInvalid)
    assert fork.commits("b") == [] and fork.announced("b") == []
    assert fork.status_of(task) == "Running"


def test_the_pins_of_the_attempt_are_kept_with_its_commit(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    fork.complete(task, outputs=[fork.written(task, "b", FIVE)])
    (commit,) = fork.commits("b")
    pins = {pin["dataset_uuid"]: (pin["number"], pin["swap"]) for pin in commit.input_pins}
    assert pins == {str(fork.output("a")[0]): (1, 1), str(fork.output("side")[0]): (0, 1)}


def test_the_same_body_twice_is_the_same_outcome_and_one_commit(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE)
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE)]
    assert fork.complete(task, outputs=outputs).status == "Completed"
    assert fork.complete(task, outputs=outputs).status == "Completed"
    assert len(fork.commits("b")) == 1 and len(fork.announced("b")) == 1
    again = fork.written(source, "a", SIX)
    first, second = (fork.commit(source, [again]) for _ in range(2))
    assert first.commits == second.commits
    assert (second.accepted, second.tasks_made) == (0, 0)
    assert len(fork.commits("a")) == 2 and len(fork.announced("a")) == 2


def test_what_was_committed_in_the_middle_may_come_again_with_the_end(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    output = fork.written(task, "b", FIVE)
    fork.commit(task, [output])
    assert fork.complete(task, outputs=[output]).status == "Completed"
    assert [each.number for each in fork.commits("b")] == [1]
    assert len(fork.announced("b")) == 1


# Events of outputs with rows ---------------------------------------------------------------------


def test_an_event_of_the_scope_is_merged_into_its_commit(fork: CommitWorld) -> None:
    source = fork.take("a")
    done = fork.commit(source, [fork.written(source, "a", FIVE)], [fork.event("a", 5)])
    assert (done.accepted, done.duplicates, done.tasks_made) == (1, 1, 1)
    assert fork.announced("a") == [(1, "c5", False)]


def test_an_event_without_its_commit_is_refused(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE)
    with pytest.raises(UncommittedScope):
        fork.accept(source, [fork.event("a", 6)])
    with pytest.raises(UncommittedScope):
        fork.commit(source, [fork.written(source, "a", SIX)], [fork.event("a", 7)])
    task = fork.take("b")
    assert isinstance(fork.complete(task, events=[fork.event("b", 5)]).error, UncommittedScope)
    assert fork.announced("b") == [] and [each.scope for each in fork.commits("a")] == ["c5"]


def test_an_event_after_its_commit_says_nothing_new(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE)
    done = fork.accept(source, [fork.event("a", 5)])
    assert (done.accepted, done.duplicates) == (0, 1)
    assert fork.announced("a") == [(1, "c5", False)]


def test_events_without_rows_go_beside_outputs_with_rows(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("b", "s3")
    source = commit_world.take("a")
    commit_world.accept(source, [commit_world.event("a", 5)])
    task = commit_world.take("b")
    outputs = [commit_world.written(task, "b", FIVE)]
    events = [commit_world.event("b", 5, index=1), commit_world.event("b", 5)]
    assert commit_world.complete(task, outputs=outputs, events=events).status == "Completed"
    assert commit_world.announced("b") == [(1, "c5", False)]
    assert commit_world.announced("b", 1) == [(0, "c5", False)]
    foreign = commit_world.take("c")
    refused = commit_world.complete(foreign, events=[commit_world.event("b", 1)])
    assert isinstance(refused.error, ForeignOutput)


# Replace, append, overlap -------------------------------------------------------------------------


def test_a_fork_a_b_a_makes_three_commits_and_three_announcements(fork: CommitWorld) -> None:
    for value in ("A", "B", "A"):
        source = fork.take("a")
        _yield(fork, source, outputs=[fork.written(source, "a", FIVE, value=value)])
    assert [(each.number, each.replaced_at, each.replaces) for each in fork.commits("a")] == [
        (1, 2, 0),
        (2, 3, 1),
        (3, None, 2),
    ]
    assert fork.announced("a") == [(1, "c5", False), (2, "c5", True), (3, "c5", True)]
    assert fork.content("a", FIVE) == "A"
    assert fork.ready("b") == 3


def test_a_rewrite_is_told_to_everybody_who_reads_the_dataset(fork: CommitWorld) -> None:
    """Of `side`, b only reads: a new scope makes no task there, a rewritten one does."""
    for value, ready in (("A", 0), ("B", 1)):
        source = fork.take("side")
        _yield(fork, source, outputs=[fork.written(source, "side", FIVE, value=value)])
        assert fork.ready("b") == ready
    (noted,) = fork.rows("SELECT * FROM invalidations")
    assert (noted.source, noted.scope, noted.number) == ("replace", "c5", 2)
    assert noted.reason == "commit 2 replaced 1"
    assert noted.task_id is not None
    events = fork.rows("SELECT event_id FROM events WHERE rewrites")
    assert [each.event_id for each in events] == [noted.event_id]


def test_a_wider_scope_replaces_what_it_covers(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE, SIX, Scope(cursor=20))
    done = fork.commit(source, [fork.written(source, "a", RANGE)])
    assert done.commits[0].commit_number == 4
    assert fork.live("a") == {"c20": 3, "p0-9": 4}
    assert fork.announced("a")[-1] == (4, "p0-9", True)
    (noted,) = fork.rows("SELECT reason FROM invalidations")
    assert noted.reason == "commit 4 replaced 1, 2"


def test_a_scope_that_cuts_through_a_commit_is_refused_by_name(fork: CommitWorld) -> None:
    source = _feed(fork, RANGE)
    with pytest.raises(PartialOverlap) as refused:
        fork.commit(source, [fork.written(source, "a", Scope.of_range(5, 14))])
    assert "5-14" in refused.value.message and "0-9" in refused.value.message
    with pytest.raises(PartialOverlap):
        fork.commit(source, [fork.written(source, "a", FIVE)])
    assert len(fork.commits("a")) == 1


def test_rows_with_cursors_are_cut_out_of_a_commit(fork: CommitWorld) -> None:
    source = fork.take("a")
    wide = Scope.of_range(0, 99)
    fork.commit(source, [fork.written(source, "a", wide, cursor_column="cursor")])
    fork.commit(source, [fork.written(source, "a", FIVE)])
    fork.commit(source, [fork.written(source, "a", Scope.of_range(90, 120))])
    assert fork.live("a") == {"p0-99": 1, "c5": 2, "p90-120": 3}
    assert fork.announced("a")[1:] == [(2, "c5", True), (3, "p90-120", True)]
    reasons = [row.reason for row in fork.rows("SELECT reason FROM invalidations ORDER BY number")]
    assert reasons == ["commit 2 replaced 1", "commit 3 replaced 1"]
    pins = [Pin(*fork.output("a"), number, 1) for number in (1, 2, 3)]  # type: ignore[arg-type]
    resolver = PinResolver(fork.state)
    left = [part.entries[0].left_at(part.pin.number) for part in resolver.resolve(pins)]
    assert left == [((0, 99),), ((0, 4), (6, 99)), ((0, 4), (6, 89))]
    # What is cut is found beside what cut it, by a range of either.
    (part,) = resolver.resolve(pins[2:], scope=Scope.of_range(4, 5))
    assert [each.number for each in part.entries] == [1, 2]
    fork.commit(source, [fork.written(source, "a", Scope.of_range(0, 89))])
    assert fork.live("a") == {"p90-120": 3, "p0-89": 4}


def test_append_replaces_nothing(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("a", "s3", "append")
    for _ in range(2):
        source = commit_world.take("a")
        _yield(commit_world, source, outputs=[commit_world.written(source, "a", FIVE)])
    source = commit_world.take("a")
    _yield(commit_world, source, outputs=[commit_world.written(source, "a", RANGE)])
    assert [each.replaced_at for each in commit_world.commits("a")] == [None, None, None]
    assert [rewrites for *_, rewrites in commit_world.announced("a")] == [False, False, False]
    assert commit_world.count("invalidations") == 0


def test_outputs_of_one_report_may_not_overlap(fork: CommitWorld) -> None:
    source = fork.take("a")
    outputs = [fork.written(source, "a", scope) for scope in (FIVE, RANGE)]
    with pytest.raises(OutputsOverlap):
        fork.commit(source, outputs)
    assert fork.commits("a") == []


# Columns ------------------------------------------------------------------------------------------


def test_the_first_commit_sets_the_columns_and_later_ones_keep_them(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE)

    def columns() -> Any:
        _, version = fork.output("a")
        (row,) = fork.rows(
            "SELECT columns FROM dataset_versions WHERE dataset_version = %(v)s", v=version
        )
        return [(each["name"], each["type"]) for each in row.columns]

    assert columns() == [("cursor", "bigint"), ("value", "text")]
    other = (Column("cursor", "text"), Column("value", "text"))
    with pytest.raises(ColumnsDiffer) as refused:
        fork.commit(source, [fork.written(source, "a", SIX, columns=other)])
    assert "cursor bigint, value text" in refused.value.message
    longer = (*COLUMNS, Column("note", "text"))
    fork.commit(source, [fork.written(source, "a", Scope(cursor=7), columns=longer)])
    assert columns()[-1] == ("note", "text")
    with pytest.raises(ColumnsDiffer):
        fork.commit(source, [fork.written(source, "a", Scope(cursor=8))])


# The fence ----------------------------------------------------------------------------------------


def _give_up(world: CommitWorld, claim: Claimed) -> None:
    """The lease is over, and the task is ready again."""
    world.pass_time(minutes=3)
    world.reaper.run_once()
    world.pass_time(minutes=20)
    world.dispatcher.run_once()


def test_a_zombies_manifest_is_refused_once_attempt_2_was_claimed(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    zombie = fork.take("b")
    outputs = [fork.written(zombie, "b", FIVE, value="old")]
    _give_up(fork, zombie)
    second = fork.take("b")
    assert (second.task_id, second.attempt) == (zombie.task_id, 2)
    assert isinstance(fork.complete(zombie, outputs=outputs).error, StaleAttempt)
    with pytest.raises(StaleAttempt):
        fork.commit(zombie, outputs)
    assert fork.commits("b") == []
    fork.complete(second, outputs=[fork.written(second, "b", FIVE, value="new")])
    assert isinstance(fork.complete(zombie, outputs=outputs).error, StaleAttempt)
    assert [each.attempt for each in fork.commits("b")] == [2]
    assert fork.content("b", FIVE) == "new"


def test_a_late_completion_commits_its_manifest(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    late = fork.take("b")
    outputs = [fork.written(late, "b", FIVE)]
    _give_up(fork, late)
    assert fork.complete(late, outputs=outputs).status == "Completed"
    assert [each.attempt for each in fork.commits("b")] == [1]
    assert fork.ready("b") == 0


def test_an_attempt_cannot_commit_the_manifest_of_another_one(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    first = fork.take("b")
    output = fork.written(first, "b", FIVE)
    _give_up(fork, first)
    second = fork.take("b")
    assert isinstance(fork.complete(second, outputs=[output]).error, ForeignLocation)
    moved = {**output, "location": output["location"].replace("/1-1/", "/2-1/")}
    assert isinstance(
        fork.complete(second, outputs=[moved]).error, ForeignLocation | ManifestInvalid
    )
    table = {**output, "location": f"postgres_table:dataset_{output['dataset_uuid']}"}
    assert isinstance(fork.complete(second, outputs=[table]).error, ForeignLocation)
    assert fork.commits("b") == []


def test_a_slice_cannot_commit_the_manifest_of_an_earlier_one(fork: CommitWorld) -> None:
    """Same task, same attempt, and a manifest that is in order: only the lease is another."""
    first = fork.take("a")
    left = fork.written(first, "a", FIVE)
    _yield(fork, first)
    second = fork.take("a")
    assert (second.attempt, second.lease_sequence) == (1, 2)
    with pytest.raises(ForeignLocation):
        fork.commit(second, [left])
    assert fork.commits("a") == []


def test_a_canceled_task_commits_nothing(fork: CommitWorld) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE)]
    fork.admin.cancel(fork.org, task.task_id, SYSTEM)
    with pytest.raises(TaskCanceled):
        fork.commit(task, outputs)
    assert isinstance(fork.complete(task, outputs=outputs).error, TaskCanceled)
    assert fork.commits("b") == []


def test_a_manifest_that_changed_after_its_commit_is_refused(fork: CommitWorld) -> None:
    source = _feed(fork, FIVE)
    _, version = fork.output("a")
    fork.state.write("test", "UPDATE commits SET manifest_sha256 = 'other'", {})
    output = fork.commits("a")[0]
    report = {
        "output_index": 0,
        "dataset_uuid": fork.output("a")[0],
        "dataset_version": version,
        "location": output.manifest_key,
        "cursor": 5,
    }
    with pytest.raises(CommitDiffers):
        fork.commit(source, [report])


def test_a_deployment_without_object_store_says_so(fork: CommitWorld) -> None:
    source = fork.take("a")
    output = fork.written(source, "a", FIVE)
    bare = type(fork.acceptance)(fork.state, fork.clock, fork.ids, fork.waker)
    fork.acceptance = bare
    with pytest.raises(Invalid, match="no object store"):
        fork.commit(source, [output])


# All or nothing -----------------------------------------------------------------------------------


class Crash(Exception):
    pass


@pytest.mark.parametrize(
    ("point", "committed"),
    [
        ("complete_one:begin", False),
        ("results:registered", False),
        ("results:announced", False),
        ("complete_one:before_commit", False),
        ("complete_one:after_commit", True),
    ],
)
def test_a_crash_leaves_all_or_nothing(fork: CommitWorld, point: str, committed: bool) -> None:
    _feed(fork, FIVE)
    task = fork.take("b")
    outputs = [fork.written(task, "b", FIVE), fork.written(task, "b", FIVE, index=1)]

    def crash(name: str) -> None:
        if name == point:
            raise Crash

    fork.state.crash_points = crash
    with pytest.raises(Crash):
        fork.complete(task, outputs=outputs)
    fork.state.crash_points = lambda _name: None
    expected = 1 if committed else 0
    for index in (0, 1):
        assert len(fork.commits("b", index)) == len(fork.announced("b", index)) == expected
        assert fork.counter("b", index).last_number == expected
    assert fork.status_of(task) == ("Completed" if committed else "Running")
    assert fork.complete(task, outputs=outputs).status == "Completed"
    assert len(fork.commits("b")) == len(fork.announced("b")) == 1
    assert fork.ready("c") == 1


def test_numbers_are_in_the_order_of_commits_under_two_racing_transactions(
    fork: CommitWorld,
) -> None:
    """The one that holds the counter commits first, whoever began first."""
    _feed(fork, FIVE, SIX)
    slow, fast = fork.take("b"), fork.take("b")
    slow_output = fork.written(slow, "b", FIVE)
    fast_output = fork.written(fast, "b", SIX)
    holds, go_on = threading.Event(), threading.Event()
    results: list[Any] = []

    def pause(name: str) -> None:
        if name == "results:registered" and threading.current_thread().name == "slow":
            holds.set()
            assert go_on.wait(10)

    fork.state.crash_points = pause
    first = threading.Thread(
        target=lambda: results.append(fork.complete(slow, outputs=[slow_output])), name="slow"
    )
    second = threading.Thread(
        target=lambda: results.append(fork.complete(fast, outputs=[fast_output])), name="fast"
    )
    first.start()
    assert holds.wait(10)
    second.start()
    second.join(0.3)
    assert second.is_alive(), "the second one waits for the counter"
    assert fork.commits("b") == []
    go_on.set()
    first.join(10)
    second.join(10)
    assert [each.status for each in results] == ["Completed", "Completed"]
    assert [(each.number, each.scope) for each in fork.commits("b")] == [(1, "c5"), (2, "c6")]
    numbers = fork.rows(
        "SELECT number FROM events e JOIN dataset_versions v USING (dataset_version)"
        " JOIN jobs j ON j.job_id = v.job_id WHERE j.name = 'b' ORDER BY event_id"
    )
    assert [each.number for each in numbers] == [1, 2]
