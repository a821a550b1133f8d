"""One published dataset of several parts: what commits to one of them do to the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commit_world import COLUMNS, CommitWorld
from trace_core.dag.model import Column
from trace_core.kernel.errors import Invalid, Superseded
from trace_core.kernel.scopes import Scope
from trace_core.registry import commits
from trace_core.registry.model import ColumnsDiffer
from trace_core.registry.pins import PinResolver
from trace_core.registry.relations import settle
from trace_core.spark.repairs import Repairs
from trace_core.storage.read_plan import covered_ranges
from trace_core.tasks.claim import Claimed

BLOCKS = """
version: 1
name: chain
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: side, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 1, update_strategy: replace}
  - {name: c, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {dataset: blocks}}], outputs: 1, update_strategy: replace}
publish:
  blocks: {from: [{job: a, output: 0}, {job: side, output: 0}, {job: b, output: 0}]}
"""
"""a follows, side fills, b compacts what a wrote; c reads all of it under its name."""

RANGE = Scope.of_range
OTHERS = (Column("cursor", "integer"), *COLUMNS[1:])
TEN = RANGE(0, 9)


@pytest.fixture
def parts(commit_world: CommitWorld) -> CommitWorld:
    commit_world.deploy(BLOCKS)
    commit_world.keep("a", "postgres")
    commit_world.keep("side", "s3")
    commit_world.keep("b", "s3")
    return commit_world


class Follower:
    """The hot part: one commit for each scope, numbered as the data database would."""

    def __init__(self, world: CommitWorld) -> None:
        self.world, self.claim, self.number = world, world.take("a"), 0
        self.held: dict[str, int] = {}

    def write(self, *scopes: Scope, number: int | None = None) -> None:
        for scope in scopes:
            self.number = number or self.number + 1
            replaces = self.held.get(scope.key, 0)
            recorded = self.world.recorded(self.claim, "a", scope, self.number, replaces=replaces)
            self.world.commit(self.claim, [recorded])
            self.held[scope.key] = self.number


def _compact(world: CommitWorld, scope: Scope = TEN, claim: Claimed | None = None) -> Claimed:
    claim = claim or world.take("b")
    output = world.written(claim, "b", scope, cursor_column="cursor")
    result = world.complete(claim, outputs=[output])
    if result.error is not None:
        raise result.error
    return claim


def _cold(world: CommitWorld) -> tuple[tuple[int, int], ...]:
    """What the parts of `blocks` in objects cover at the pins of now."""
    pins = PinResolver(world.state).current_pins(world.org, ["blocks"])["blocks"]
    return covered_ranges(PinResolver(world.state).resolve(pins)[1:])


def _tasks(world: CommitWorld, job: str) -> int:
    return int(
        world.rows(
            "SELECT count(*) AS n FROM tasks t JOIN jobs j ON j.job_id = t.job_id"
            " WHERE j.name = %(job)s",
            job=job,
        )[0].n
    )


def test_a_rewrite_takes_its_range_from_the_colder_part_at_once(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(10)))
    _compact(parts)
    assert _cold(parts) == ((0, 9),)
    before = PinResolver(parts.state).current_pins(parts.org, ["blocks"])["blocks"]
    hot.write(RANGE(7, 9))
    assert _cold(parts) == ((0, 6),)
    # Whoever pinned before reads what was there before.
    assert covered_ranges(PinResolver(parts.state).resolve(before)[1:]) == ((0, 9),)
    hot.write(RANGE(0, 6))
    assert _cold(parts) == ()


def test_bad_rows_are_written_again_where_they_are_read_from(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(10)))
    _compact(parts)
    hot.write(RANGE(7, 9))
    (payload,) = parts.payloads.build([parts.take("c")])
    repairs = Repairs(parts.state, parts.clock, parts.ids, parts.waker, lambda *_: True)
    part_of = {str(parts.output(job)[1]): job for job in ("a", "side", "b")}

    def bad(scope: Scope) -> str:
        return part_of[str(repairs.bad_part(payload["inputs"], scope)["dataset_version"])]

    assert (bad(RANGE(0, 6)), bad(Scope(cursor=8)), bad(RANGE(7, 9))) == ("b", "a", "a")
    assert (bad(RANGE(6, 7)), bad(RANGE(50, 59)), bad(Scope())) == ("b", "a", "b")


def test_a_rewrite_of_all_takes_what_was_moved_and_nothing_that_was_filled_in(
    parts: CommitWorld,
) -> None:
    hot, side = Follower(parts), parts.take("side")
    parts.commit(side, [parts.written(side, "side", RANGE(20, 29), cursor_column="cursor")])
    hot.write(*(Scope(cursor=each) for each in range(10)))
    _compact(parts)
    assert _cold(parts) == ((0, 9), (20, 29))
    hot.write(Scope())
    assert _cold(parts) == ((20, 29),)


def test_after_a_switch_a_rewrite_of_all_takes_what_was_moved_before_it(
    parts: CommitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot, side = Follower(parts), parts.take("side")
    parts.commit(side, [parts.written(side, "side", RANGE(20, 29), cursor_column="cursor")])
    hot.write(*(Scope(cursor=each) for each in range(10)))
    _compact(parts)
    # As if the parts had not been read together when it was written.
    monkeypatch.setattr(commits, "take_from_colder", lambda *_: None)
    hot.write(Scope())
    (dag,) = parts.rows("SELECT dag_id FROM dags WHERE org_id = %(org)s", org=parts.org)
    with parts.state.transaction("test") as tx:
        settle(tx, dag.dag_id)
    assert _cold(parts) == ((20, 29),)
    # What was moved after it is right.
    _compact(parts)
    with parts.state.transaction("test") as tx:
        settle(tx, dag.dag_id)
    assert _cold(parts) == ((0, 9), (20, 29))


def test_a_rewrite_takes_effect_when_pins_reach_it(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(10)))
    _compact(parts)
    hot.write(RANGE(8, 9), number=12)
    assert _cold(parts) == ((0, 9),)
    hot.write(RANGE(4, 5), number=11)
    assert _cold(parts) == ((0, 3), (6, 7))


def test_a_compaction_of_what_changed_meanwhile_is_refused_and_comes_again(
    parts: CommitWorld,
) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(10)))
    late = parts.take("b")
    hot.write(Scope(cursor=9))
    with pytest.raises(Superseded):
        _compact(parts, TEN, late)
    # What changed elsewhere is none of its business.
    _compact(parts, RANGE(0, 8), late)
    assert _cold(parts) == ((0, 8),)


def test_compaction_is_no_news_to_readers_of_the_whole(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(3)))
    assert _tasks(parts, "c") == 3
    _compact(parts)
    assert _tasks(parts, "c") == 3
    side = parts.take("side")
    parts.commit(side, [parts.written(side, "side", RANGE(50, 59), cursor_column="cursor")])
    assert _tasks(parts, "c") == 4
    hot.write(Scope(cursor=1))
    assert _tasks(parts, "c") == 5


def test_a_task_reads_all_parts_at_pins_of_one_moment(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(*(Scope(cursor=each) for each in range(3)))
    _compact(parts)
    (payload,) = parts.payloads.build([parts.take("c")])
    assert [each["commit_number"] for each in payload["inputs"]] == [3, 0, 1]
    assert {each["alias"] for each in payload["inputs"]} == {"blocks"}


def test_a_colder_part_without_cursors_is_refused(parts: CommitWorld) -> None:
    side = parts.take("side")
    with pytest.raises(Invalid, match="cursor_column"):
        parts.commit(side, [parts.written(side, "side", TEN)])


def test_a_part_of_what_cannot_be_told_apart_is_not_moved(parts: CommitWorld) -> None:
    parts.keep("a", "s3")
    source, claim = parts.take("a"), None
    for scope in (RANGE(0, 4), RANGE(5, 14), RANGE(15, 29)):
        parts.commit(source, [parts.written(source, "a", scope)])
    claim = parts.take("b")
    with pytest.raises(Invalid, match=r"5-14 \(commit 2\).* read twice"):
        _compact(parts, TEN, claim)
    _compact(parts, RANGE(0, 14))
    # With cursors every row is taken by itself.
    parts.commit(source, [parts.written(source, "a", RANGE(30, 59), cursor_column="cursor")])
    _compact(parts, RANGE(30, 39))
    assert _cold(parts) == ((0, 14), (30, 39))


@pytest.mark.parametrize("scope", [Scope(), Scope(partition_key="monday")], ids=str)
def test_rows_are_not_moved_to_where_nothing_hides_them(parts: CommitWorld, scope: Scope) -> None:
    Follower(parts).write(*(Scope(cursor=each) for each in range(10)))
    claim = parts.take("b")
    output = parts.written(claim, "b", scope)
    refused = parts.complete(claim, outputs=[output]).error
    assert isinstance(refused, Invalid) and "read from both" in refused.message


def test_moved_rows_never_hide_those_of_a_part_that_they_were_not_made_from(
    parts: CommitWorld,
) -> None:
    hot, side = Follower(parts), parts.take("side")
    parts.commit(side, [parts.written(side, "side", TEN, cursor_column="cursor")])
    hot.write(*(Scope(cursor=each) for each in range(10, 20)))
    with pytest.raises(Invalid, match="would hide"):
        _compact(parts, RANGE(5, 14))
    _compact(parts, RANGE(10, 19))
    assert _cold(parts) == ((0, 19),)


def test_a_range_of_which_some_was_rewritten_before_is_there_to_be_moved(
    parts: CommitWorld,
) -> None:
    hot = Follower(parts)
    hot.write(RANGE(0, 19))
    # In a table the first commit goes on, with the rows that were not rewritten.
    hot.write(RANGE(15, 17))
    side = parts.take("side")
    parts.commit(side, [parts.written(side, "side", RANGE(5, 9), cursor_column="cursor")])
    _compact(parts)
    assert _cold(parts) == ((0, 9),)


def test_parts_that_cannot_be_read_as_one_are_refused(parts: CommitWorld) -> None:
    side = parts.take("side")
    parts.commit(side, [parts.written(side, "side", TEN, cursor_column="cursor")])
    Follower(parts).write(*(Scope(cursor=each) for each in range(10)))
    claim = parts.take("b")
    other = parts.written(claim, "b", TEN, cursor_column="cursor", columns=OTHERS)
    result = parts.complete(claim, outputs=[other])
    assert isinstance(result.error, ColumnsDiffer)
    assert "cursor integer" in str(result.error) and "cursor bigint" in str(result.error)


def test_a_backfilled_range_is_taken_by_what_is_followed_later(parts: CommitWorld) -> None:
    hot, side = Follower(parts), parts.take("side")
    parts.commit(side, [parts.written(side, "side", TEN, cursor_column="cursor")])
    hot.write(Scope(cursor=9))
    assert _cold(parts) == ((0, 8),)
    # And the other way round: what is filled later is read from there.
    parts.commit(side, [parts.written(side, "side", RANGE(8, 12), cursor_column="cursor")])
    assert _cold(parts) == ((0, 12),)


def _counters(world: CommitWorld) -> dict[str, Any]:
    return {job: world.counter(job).readable for job in ("a", "side", "b")}


def test_a_dataset_with_one_part_is_as_before(parts: CommitWorld) -> None:
    hot = Follower(parts)
    hot.write(Scope(cursor=1), Scope(cursor=1))
    assert _counters(parts) == {"a": 2, "side": 0, "b": 0}
