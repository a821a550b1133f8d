"""Invalidations: told once to every job that reads the dataset, and followed until processed."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest

from tests.commit_world import FORK, CommitWorld
from trace_core.database.state import OPTIONS
from trace_core.identity.model import SYSTEM, Actor, ActorKind, PlatformRole
from trace_core.kernel.errors import Forbidden, NotFound
from trace_core.kernel.ids import OrgId, UserId
from trace_core.kernel.scopes import Scope
from trace_core.tasks.api import InvalidateRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.invalidations import (
    SQL,
    Declaration,
    Invalidations,
    KeyReused,
    invalidation_of,
)

PUBLISHED = (
    FORK
    + """
publish:
  blocks: {from: {job: a, output: 0}, description: Blocks.}
"""
)


def _service(world: CommitWorld) -> Invalidations:
    return Invalidations(world.state, world.clock, world.ids, world.waker)


def _declare(
    world: CommitWorld, key: str = "k1", org: OrgId | None = None, **fields: object
) -> Declaration:
    named = {"dataset": str(world.output("a")[0]), "reason": "wrong node", "cursor": 5, **fields}
    request = InvalidateRequest.model_validate({"key": key, **named})
    return _service(world).declare(org or world.org, request, SYSTEM)


@pytest.fixture
def world(commit_world: CommitWorld) -> CommitWorld:
    commit_world.deploy(FORK)
    for job, index in (("a", 0), ("side", 0), ("b", 0), ("c", 0)):
        commit_world.keep(job, "s3", index=index)
    source = commit_world.take("a")
    commit_world.report(
        source, "Yielded", outputs=[commit_world.written(source, "a", Scope(cursor=5))]
    )
    commit_world.take("b")
    return commit_world


def test_a_declared_scope_is_told_once_to_each_dependent_job(world: CommitWorld) -> None:
    world.clear_outbox()
    done = _declare(world)
    assert done.tasks_made == 1 and not done.repeated
    (declared,) = done.invalidations
    assert declared.number == 2
    (event,) = world.rows("SELECT * FROM events WHERE event_id = %(e)s", e=declared.event_id)
    assert (event.producer_task_id, event.rewrites, event.number) == (event.event_id, True, 2)
    counter = world.counter("a")
    assert (counter.last_number, counter.readable) == (2, 2)
    assert world.pending_wakes() == ["worker"]
    task = world.take("b")
    assert task.trigger is not None
    assert task.trigger.event_id == declared.event_id
    assert task.trigger.scope == Scope(cursor=5)
    told = invalidation_of(world.state, [declared.event_id, world.ids.event_id()])
    assert told == {
        declared.event_id: {"reason": "wrong node", "source": "person", "scope": {"cursor": 5}}
    }
    (entry,) = world.rows("SELECT * FROM audit WHERE action = 'dataset.invalidate'")
    assert entry.detail["reason"] == "wrong node"


def test_a_job_that_only_reads_the_dataset_is_told_too(world: CommitWorld) -> None:
    assert _declare(world, dataset=str(world.output("side")[0])).tasks_made == 1


def test_the_next_commit_goes_on_behind_it(world: CommitWorld) -> None:
    _declare(world)
    source = world.take("a")
    world.report(source, "Yielded", outputs=[world.written(source, "a", Scope(cursor=5))])
    assert [each.number for each in world.commits("a")] == [1, 3]
    assert world.announced("a")[-1] == (3, "c5", True)
    assert world.counter("a").readable == 3


def test_the_pin_of_the_data_database_does_not_move(world: CommitWorld) -> None:
    """Its commits are numbered there: a number that was taken here would never be reached."""
    world.keep("b", "postgres")
    source = world.take("a")
    outputs = [world.written(source, "a", Scope(cursor=cursor)) for cursor in (1, 2)]
    world.report(source, "Yielded", outputs=outputs)
    one, two = world.take("b"), world.take("b")
    world.complete(one, outputs=[world.recorded(one, "b", Scope(cursor=1), 1)])
    _declare(world, dataset=str(world.output("b")[0]), cursor=1)
    counter = world.counter("b")
    assert (counter.last_number, counter.readable) == (2, 1)
    world.complete(two, outputs=[world.recorded(two, "b", Scope(cursor=2), 2)])
    counter = world.counter("b")
    assert (counter.last_number, counter.readable) == (3, 2)
    assert world.announced("b") == [(1, "c1", False), (2, "c1", True), (2, "c2", False)]


def test_the_same_key_again_declares_nothing_more(world: CommitWorld) -> None:
    first, again = _declare(world), _declare(world)
    assert again.repeated and again.invalidations == first.invalidations
    assert world.ready("b") == 1 and world.count("invalidations") == 1
    with pytest.raises(KeyReused):
        _declare(world, cursor=6)
    with pytest.raises(KeyReused):
        _declare(world, reason="another")
    assert not _declare(world, "k2").repeated


def test_a_published_name_names_its_current_parts(commit_world: CommitWorld) -> None:
    commit_world.deploy(PUBLISHED)
    done = _declare(commit_world, dataset="blocks", cursor=None, start=0, end=9)
    assert [each.dataset_uuid for each in done.invalidations] == [commit_world.output("a")[0]]
    (shown,) = _service(commit_world).list(commit_world.org, dataset="blocks")
    assert shown["scope"] == {"partition_key": "0-9", "start": 0, "end": 9}


def test_foreign_and_unknown_datasets_are_not_found(world: CommitWorld) -> None:
    with pytest.raises(NotFound):
        _declare(world, dataset="nothing")
    with pytest.raises(NotFound):
        _declare(world, org=world.another_org())


def test_only_those_who_may_deploy_the_dag_may_declare(world: CommitWorld) -> None:
    reader = Actor(
        ActorKind.USER, "reader", UserId(world.ids.uuid()), platform_role=PlatformRole.READER
    )
    request = InvalidateRequest(
        dataset=str(world.output("a")[0]), reason="wrong", key="k", cursor=5
    )
    with pytest.raises(Forbidden):
        _service(world).declare(world.org, request, reader)
    assert world.count("invalidations") == 0


def _finish(world: CommitWorld, task: Claimed) -> None:
    assert world.complete(task).status == "Completed"


def test_an_invalidation_is_processed_when_its_tasks_have_completed(
    world: CommitWorld,
) -> None:
    _declare(world)

    def shown() -> tuple[bool, list[str]]:
        (first, *_) = _service(world).list(world.org)
        return first["processed"], [f"{t['job']} {t['status']}" for t in first["tasks"]]

    assert shown() == (False, ["b Queued"])
    task = world.take("b")
    assert shown() == (False, ["b Running"])
    _finish(world, task)
    assert shown() == (True, ["b Completed"])


def test_pages_go_by_id_and_by_dataset(world: CommitWorld) -> None:
    for number in range(3):
        _declare(world, f"k{number}", cursor=number)
    _declare(world, "side", dataset=str(world.output("side")[0]))
    first = _service(world).list(world.org, limit=2)
    second = _service(world).list(world.org, limit=2, before=first[-1]["event_id"])
    assert [each["scope"]["cursor"] for each in first + second] == [5, 2, 1, 0]
    only = _service(world).list(world.org, dataset=str(world.output("side")[0]))
    assert len(only) == 1
    assert _service(world).list(world.another_org()) == []


def test_the_list_finds_tasks_by_their_ids(world: CommitWorld) -> None:
    _declare(world)
    with psycopg.connect(world.state.dsn, options=OPTIONS) as connection:
        text = SQL["list_invalidations"].replace("%(dataset_uuids)b", "NULL")
        plan = connection.execute(
            "EXPLAIN " + text,  # type: ignore[arg-type]
            {"org_id": world.org, "before": UUID(int=2**128 - 1), "limit": 50},
        ).fetchall()
    lines = "\n".join(row[0] for row in plan)
    for table in ("tasks", "attempts", "invalidations"):
        assert f"Seq Scan on {table}" not in lines, lines
