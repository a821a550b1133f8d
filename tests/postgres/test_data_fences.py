"""Fences: whoever lost a task may write no more, however long it slept."""

from __future__ import annotations

import threading

import pytest

from tests.dataset_layouts import PostgresLayout, block, row_hashes
from tests.postgres.data_world import DataWorld, Frozen
from trace_core.database.data import DataRole
from trace_core.kernel.errors import Denied, Fenced, StaleAttempt
from trace_core.kernel.scopes import Scope
from trace_core.storage.commits import Committed, DataCommit, DataFence
from trace_core.storage.postgres_output import PostgresOutput

SCOPE = Scope.of_range(0, 9)
BODY = {"status": "Completed"}


def _write(
    output: PostgresOutput, layout: PostgresLayout, fence: DataFence, hash_: str
) -> Committed:
    rows = layout.rows_output(SCOPE, [block(1, hash_)])
    return output.commit(DataCommit(fence, (rows,), (), BODY))


def _hashes(layout: PostgresLayout, number: int = 99) -> list[str]:
    found = layout.reader.table(layout.part(number))["hash"].to_pylist()
    assert all(isinstance(each, str) for each in found)
    return sorted(found)


def test_a_fence_only_advances(data_world: DataWorld) -> None:
    task = data_world.task()
    output = data_world.output
    assert output.advance_fence(task, 1, 1) == DataFence(task, 1, 1, 1)
    assert output.advance_fence(task, 1, 3) == DataFence(task, 1, 1, 3)
    assert output.advance_fence(task, 2, 2) == DataFence(task, 1, 2, 2)
    assert output.advance_fence(task, 2, 2) == DataFence(task, 1, 2, 2)
    for lower in ((1, 3), (2, 1), (1, 9)):
        with pytest.raises(Fenced) as refused:
            output.advance_fence(task, *lower)
        assert isinstance(refused.value, StaleAttempt)
    assert output.advance_fence(data_world.task(), 1, 1).attempt == 1


def test_without_a_fence_nothing_is_written(data_world: DataWorld) -> None:
    layout = data_world.layout()
    with pytest.raises(Fenced):
        _write(data_world.output, layout, DataFence(data_world.task(), 1, 1, 1), "a")
    assert _hashes(layout) == []


def test_a_zombie_that_wakes_after_attempt_2_advanced_the_fence_is_refused(
    data_world: DataWorld,
) -> None:
    layout, task = data_world.layout(), data_world.task()
    frozen = Frozen("data_commit:begin")
    zombie = data_world.writer(frozen)
    fence = zombie.advance_fence(task, 1, 1)
    with frozen.running(lambda: _write(zombie, layout, fence, "zombie")):
        newer = data_world.output.advance_fence(task, 2, 2)
    assert isinstance(frozen.error, Fenced)
    assert _hashes(layout) == []
    assert data_world.output.find_records(task) is None
    assert _write(data_world.output, layout, newer, "second").commits[0].number == 1
    assert _hashes(layout) == ["second"]


def test_a_zombie_that_wakes_after_attempt_2_committed_is_refused(data_world: DataWorld) -> None:
    layout, task = data_world.layout(), data_world.task()
    frozen = Frozen("data_commit:begin")
    zombie = data_world.writer(frozen)
    fence = zombie.advance_fence(task, 1, 1)
    with frozen.running(lambda: _write(zombie, layout, fence, "zombie")):
        newer = data_world.output.advance_fence(task, 2, 2)
        _write(data_world.output, layout, newer, "second")
    assert isinstance(frozen.error, Fenced)
    assert _hashes(layout) == ["second"]
    assert data_world.one("SELECT count(*) FROM trace.records") == 1


def test_a_zombie_that_wakes_before_it_advances_its_fence_is_refused(data_world: DataWorld) -> None:
    task = data_world.task()
    frozen = Frozen("advance_fence:before_commit")
    zombie = data_world.writer(frozen)
    with frozen.running(lambda: zombie.advance_fence(task, 1, 1)):
        data_world.output.advance_fence(task, 1, 2)
    assert isinstance(frozen.error, Fenced)


def test_whoever_holds_the_fence_commits_before_another_takes_over(data_world: DataWorld) -> None:
    """Attempt 2 waits for the transaction of attempt 1, and then finds and reports its record."""
    layout, task = data_world.layout(), data_world.task()
    frozen = Frozen("data_commit:before_commit")
    first = data_world.writer(frozen)
    fence = first.advance_fence(task, 1, 1)
    took_over = threading.Event()

    def take_over() -> None:
        data_world.output.advance_fence(task, 2, 2)
        took_over.set()

    second = threading.Thread(target=take_over)
    with frozen.running(lambda: _write(first, layout, fence, "first")):
        second.start()
        data_world.wait_until_blocked()
        assert not took_over.is_set()
    second.join(10)
    assert took_over.is_set()
    found = data_world.output.find_records(task)
    assert found is not None
    assert found.fence == fence
    assert found.body == BODY
    assert _hashes(layout) == ["first"]


def test_a_restore_voids_every_fence_from_before(data_world: DataWorld) -> None:
    layout, task, other = data_world.layout(), data_world.task(), data_world.task()
    old = data_world.output.advance_fence(task, 7, 9)
    unknown = data_world.output.advance_fence(other, 1, 1)
    assert data_world.output.raise_epoch() == 2
    for fence in (old, unknown):
        with pytest.raises(Fenced):
            _write(data_world.output, layout, fence, "old")
    # The state database went back in time: its attempts begin lower than before.
    restored = data_world.output.advance_fence(task, 1, 1)
    assert restored.epoch == 2
    _write(data_world.output, layout, restored, "restored")
    assert row_hashes(layout.reader.table(layout.part(1))) == row_hashes([block(1, "restored")])


def test_raising_the_epoch_waits_for_whoever_is_writing(data_world: DataWorld) -> None:
    layout, task = data_world.layout(), data_world.task()
    frozen = Frozen("data_commit:before_commit")
    writer = data_world.writer(frozen)
    fence = writer.advance_fence(task, 1, 1)
    raised: list[int] = []
    restore = threading.Thread(target=lambda: raised.append(data_world.output.raise_epoch()))
    with frozen.running(lambda: _write(writer, layout, fence, "a")):
        restore.start()
        data_world.wait_until_blocked()
        assert raised == []
    restore.join(10)
    assert raised == [2]
    assert _hashes(layout) == ["a"]


def test_a_writer_cannot_raise_the_epoch(data_world: DataWorld) -> None:
    writer = PostgresOutput(data_world.session(role=DataRole.WRITER), data_world.clock)
    with pytest.raises(Denied):
        writer.raise_epoch()
