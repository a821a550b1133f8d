"""A result of older inputs never replaces one of newer inputs; its task goes on with fresh ones."""

from __future__ import annotations

import pytest

from tests.commit_world import FORK, CommitWorld
from tests.factories import completion
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Invalid, OutcomeDiffers, StaleAttempt, Superseded, TaskCanceled
from trace_core.kernel.scopes import Scope
from trace_core.tasks.claim import Claimed

FIVE = Scope(cursor=5)


def _rewrite(world: CommitWorld, job: str, value: str) -> None:
    source = world.take(job)
    output = world.written(source, job, FIVE, value=value)
    assert world.report(source, "Yielded", outputs=[output]).status == "Yielded"


@pytest.fixture
def two(fork: CommitWorld) -> tuple[CommitWorld, Claimed, Claimed]:
    """A slow task that read commit 1 of a, and a quick one that read commit 2."""
    _rewrite(fork, "a", "A")
    slow = fork.take("b")
    _rewrite(fork, "a", "B")
    return fork, slow, fork.take("b")


def test_a_slow_task_with_older_pins_never_replaces_a_newer_result(
    two: tuple[CommitWorld, Claimed, Claimed],
) -> None:
    world, slow, quick = two
    outputs = [world.written(slow, "b", FIVE, value="of_A")]
    assert world.complete(
        quick, outputs=[world.written(quick, "b", FIVE, value="of_B")]
    ).status == "Completed"  # fmt: skip
    assert isinstance(world.complete(slow, outputs=outputs).error, Superseded)
    with pytest.raises(Superseded):
        world.commit(slow, outputs)
    assert world.content("b", FIVE) == "of_B"
    assert len(world.commits("b")) == len(world.announced("b")) == 1
    assert world.status_of(slow) == "Running"


def test_a_superseded_task_goes_on_at_once_with_fresh_pins_and_loses_no_attempt(
    two: tuple[CommitWorld, Claimed, Claimed],
) -> None:
    world, slow, quick = two
    world.complete(quick, outputs=[world.written(quick, "b", FIVE)])
    world.clear_outbox()
    world.waker.woken.clear()
    assert world.report(slow, "Superseded").status == "Superseded"
    assert world.status_of(slow) == "Queued"
    assert world.pending_wakes() == ["worker"] and world.waker.woken
    (ready,) = world.rows("SELECT * FROM ready WHERE task_id = %(t)s", t=slow.task_id)
    assert ready.failures == 0
    again = world.take("b")
    assert (again.task_id, again.attempt, again.lease_sequence) == (slow.task_id, 2, 2)
    outputs = [world.written(again, "b", FIVE, value="again")]
    assert world.complete(again, outputs=outputs).status == "Completed"
    assert world.content("b", FIVE) == "again"
    outcomes = [each["outcome"] for each in world.views.task(world.org, slow.task_id)["attempts"]]
    assert sorted(outcomes) == ["Completed", "Superseded"]


def test_what_failed_before_still_counts(fork: CommitWorld) -> None:
    _rewrite(fork, "a", "A")
    for number in range(3):
        task = fork.take("b")
        assert fork.report(task, "Failed" if number < 2 else "Superseded").error is None
        fork.pass_time(minutes=20)
        fork.dispatcher.run_once()
    last = fork.take("b")
    assert last.attempt == 4
    fork.report(last, "Failed")
    assert fork.status_of(last) == "Failed"
    assert fork.rows("SELECT count(*) AS n FROM delayed d WHERE task_id = %(t)s", t=last.task_id)[
        0
    ].n == 0  # fmt: skip


def test_reported_twice_it_is_queued_once(two: tuple[CommitWorld, Claimed, Claimed]) -> None:
    world, slow, _ = two
    assert world.report(slow, "Superseded").status == "Superseded"
    assert world.report(slow, "Superseded").status == "Superseded"
    assert world.ready("b") == 1
    world.take("b")
    assert world.report(slow, "Superseded").status == "Superseded"
    assert isinstance(world.complete(slow).error, OutcomeDiffers)


def test_what_the_task_held_is_given_back(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK.replace("name: b,", "name: b, scaling: {max_concurrency: 1},"))
    for job in ("a", "b"):
        commit_world.keep(job, "s3")
    _rewrite(commit_world, "a", "A")
    _rewrite(commit_world, "a", "B")
    slow = commit_world.take("b")

    def running() -> int:
        return int(
            commit_world.rows("SELECT running FROM capacities WHERE kind = 'job'")[0].running
        )

    assert running() == 1
    commit_world.report(slow, "Superseded")
    assert running() == 0


def test_a_source_is_never_superseded(fork: CommitWorld) -> None:
    source = fork.take("a")
    assert isinstance(fork.report(source, "Superseded").error, Invalid)
    with pytest.raises(ValueError, match="no events, outputs or state"):
        completion(source, "Superseded", events=[fork.event("a", 5)])


def test_a_canceled_task_is_not_queued_again(two: tuple[CommitWorld, Claimed, Claimed]) -> None:
    world, slow, _ = two
    world.admin.cancel(world.org, slow.task_id, SYSTEM)
    assert isinstance(world.report(slow, "Superseded").error, TaskCanceled)


def test_an_attempt_that_was_given_up_is_only_noted(
    two: tuple[CommitWorld, Claimed, Claimed],
) -> None:
    world, slow, _ = two
    world.pass_time(minutes=3)
    world.reaper.run_once()
    assert world.report(slow, "Superseded").status == "LeaseExpired"
    assert world.status_of(slow) == "Failed"
    world.pass_time(minutes=20)
    world.dispatcher.run_once()
    world.take("b")
    zombie = completion(slow, "Superseded", error_message="again")
    (result,) = world.completions.complete(world.org, [zombie])
    assert isinstance(result.error, OutcomeDiffers | StaleAttempt)


def test_an_input_that_only_one_of_them_has_does_not_count(fork: CommitWorld) -> None:
    """Pins are compared for each dataset that both read; here `side` moved on and a did not."""
    _rewrite(fork, "a", "A")
    slow = fork.take("b")
    _rewrite(fork, "side", "A")
    _rewrite(fork, "side", "B")
    quick = fork.take("b")
    fork.complete(quick, outputs=[fork.written(quick, "b", FIVE)])
    refused = fork.complete(slow, outputs=[fork.written(slow, "b", FIVE)])
    assert isinstance(refused.error, Superseded)


def test_a_moved_pointer_is_later_than_any_commit(fork: CommitWorld) -> None:
    _rewrite(fork, "a", "A")
    _rewrite(fork, "a", "B")
    first, second = fork.take("b"), fork.take("b")
    fork.state.write(
        "test",
        "UPDATE task_inputs SET swap = 2, commit_number = 0 WHERE task_id = %(task)s",
        {"task": first.task_id},
    )
    fork.complete(first, outputs=[fork.written(first, "b", FIVE)])
    assert isinstance(
        fork.complete(second, outputs=[fork.written(second, "b", FIVE)]).error, Superseded
    )


def test_another_scope_or_the_same_pins_may_be_written(fork: CommitWorld) -> None:
    _rewrite(fork, "a", "A")
    slow = fork.take("b")
    _rewrite(fork, "a", "B")
    quick = fork.take("b")
    fork.complete(quick, outputs=[fork.written(quick, "b", FIVE)])
    other = [fork.written(slow, "b", Scope(cursor=6))]
    assert fork.complete(slow, outputs=other).status == "Completed"
    _rewrite(fork, "a", "C")
    _rewrite(fork, "a", "D")
    one, two = fork.take("b"), fork.take("b")
    for each in (one, two):
        outputs = [fork.written(each, "b", FIVE)]
        assert fork.complete(each, outputs=outputs).status == "Completed"
