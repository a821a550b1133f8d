"""Lineage: from a scope to its commits, their tasks, code and pins, and so upstream."""

from __future__ import annotations

import pytest

from tests.commit_world import FORK, CommitWorld
from trace_core.kernel.errors import NotFound
from trace_core.kernel.scopes import Scope
from trace_core.registry.lineage import Lineage

FIVE, SIX = Scope(cursor=5), Scope(cursor=6)


def _run(world: CommitWorld, job: str, *scopes: Scope, value: str = "") -> None:
    task = world.take(job)
    outputs = [world.written(task, job, scope, value=value) for scope in scopes]
    status = "Yielded" if job in ("a", "side") else "Completed"
    assert world.report(task, status, outputs=outputs).status == status


@pytest.fixture
def made(fork: CommitWorld) -> CommitWorld:
    """Two scopes of a, each worked on by b and c."""
    _run(fork, "side", FIVE)
    _run(fork, "a", FIVE, SIX)
    for scope in (FIVE, SIX):
        _run(fork, "b", scope)
        _run(fork, "c", scope)
    return fork


def test_a_scope_leads_to_its_commit_task_code_and_pins(made: CommitWorld) -> None:
    report = Lineage(made.state).of(made.org, str(made.output("c")[0]), FIVE, depth=0)
    (commit,) = report.commits
    assert (commit.number, commit.scope, commit.row_count) == (1, FIVE, 1)
    task = commit.task
    assert task is not None
    assert (task.dag, task.job, task.operator, task.attempt) == ("fork", "c", "work", 1)
    (job,) = made.rows("SELECT fingerprint FROM jobs WHERE name = 'c'")
    assert task.fingerprint == job.fingerprint and task.config == {}
    (read,) = task.inputs
    assert (read.job, read.pin.number, read.scope) == ("b", 1, FIVE)
    assert read.commits == () and not report.truncated


def test_it_goes_upstream_to_the_asked_depth(made: CommitWorld) -> None:
    report = Lineage(made.state).of(made.org, str(made.output("c")[0]), FIVE, depth=2)
    (c,) = report.commits
    assert c.task is not None
    (b,) = c.task.inputs[0].commits
    assert b.task is not None
    assert (b.task.job, b.scope) == ("b", FIVE)
    inputs = {each.job: each for each in b.task.inputs}
    (a,) = inputs["a"].commits
    assert (a.number, a.scope) == (1, FIVE), "not the other scope of the same dataset"
    assert a.task is not None and a.task.inputs == ()
    assert (inputs["side"].pin.number, inputs["side"].scope) == (1, None)
    assert inputs["side"].commits == ()
    less = Lineage(made.state).of(made.org, str(made.output("c")[0]), FIVE, depth=1)
    assert less.commits[0].task is not None
    (b,) = less.commits[0].task.inputs[0].commits
    assert b.task is not None and all(each.commits == () for each in b.task.inputs)


def test_it_shows_what_was_read_then_not_what_is_there_now(made: CommitWorld) -> None:
    _run(made, "a", FIVE, value="new")
    (commit,) = Lineage(made.state).of(made.org, str(made.output("b")[0]), FIVE).commits
    assert commit.task is not None
    inputs = {each.job: each for each in commit.task.inputs}
    (a,) = inputs["a"].commits
    assert (a.number, a.replaced_at) == (1, 3)
    (now,) = Lineage(made.state).of(made.org, str(made.output("a")[1]), FIVE).commits
    assert now.number == 3
    (then,) = Lineage(made.state).of(made.org, str(made.output("a")[1]), FIVE, at=2).commits
    assert then.number == 1


def test_ranges_and_all_of_it(made: CommitWorld) -> None:
    lineage, name = Lineage(made.state), str(made.output("b")[0])
    assert len(lineage.of(made.org, name, Scope.of_range(0, 5)).commits) == 1
    assert len(lineage.of(made.org, name, Scope.of_range(0, 9)).commits) == 2
    assert len(lineage.of(made.org, name).commits) == 2
    assert lineage.of(made.org, name, Scope(cursor=7)).commits == ()


def test_an_input_without_rows_is_followed_through_who_announced_it(
    commit_world: CommitWorld,
) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("a", "s3")
    commit_world.keep("c", "s3")
    _run(commit_world, "a", FIVE)
    task = commit_world.take("b")
    commit_world.complete(task, events=[commit_world.event("b", 5)])
    _run(commit_world, "c", FIVE)
    (commit,) = (
        Lineage(commit_world.state)
        .of(commit_world.org, str(commit_world.output("c")[0]), FIVE)
        .commits
    )
    assert commit.task is not None
    (read,) = commit.task.inputs
    assert read.producer is not None and read.commits == ()
    assert (read.producer.job, read.producer.task_id) == ("b", task.task_id)
    (a,) = next(each for each in read.producer.inputs if each.job == "a").commits
    assert a.scope == FIVE
    assert commit.fields()["task"]["inputs"][0]["producer"]["job"] == "b"


def test_a_published_name_and_foreign_ones(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK + "publish:\n  blocks: {from: {job: a, output: 0}, description: B.}\n")
    commit_world.keep("a", "s3")
    _run(commit_world, "a", FIVE)
    lineage = Lineage(commit_world.state)
    assert len(lineage.of(commit_world.org, "blocks").commits) == 1
    for org, name in ((commit_world.another_org(), "blocks"), (commit_world.org, "nothing")):
        with pytest.raises(NotFound):
            lineage.of(org, name)
    with pytest.raises(NotFound):
        lineage.of(commit_world.another_org(), str(commit_world.output("a")[1]))


def test_more_than_can_be_shown_is_said(commit_world: CommitWorld) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("a", "s3")
    _run(commit_world, "a", *(Scope(cursor=cursor) for cursor in range(101)))
    report = Lineage(commit_world.state).of(commit_world.org, str(commit_world.output("a")[0]))
    assert len(report.commits) == 100 and report.truncated
