"""Commits in the data database: all outputs or none, numbers in the order of commits."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.dataset_layouts import APPEND, PostgresLayout, block, row_hashes
from tests.postgres.data_world import Crash, DataWorld, Frozen
from trace_core.kernel.errors import Invalid, NotFound, OutcomeDiffers, Superseded
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.storage.commits import CursorMove, DataCommit
from trace_core.storage.errors import CursorMoved, PartialOverlap
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.scopes import WHOLE

SCOPE = Scope.of_range(0, 9)
BODY = {"status": "Completed"}


def _hashes(layout: PostgresLayout, number: int = 10**6) -> list[str]:
    return sorted(layout.reader.table(layout.part(number))["hash"].to_pylist())


def _pair(data_world: DataWorld) -> tuple[PostgresLayout, PostgresLayout]:
    return data_world.layout(), data_world.layout(update_strategy=APPEND, unique_key=("hash",))


def _both(
    output: PostgresOutput, pair: tuple[PostgresLayout, PostgresLayout], data_world: DataWorld
) -> DataCommit:
    """One attempt with two outputs and a cursor."""
    fence = output.advance_fence(data_world.task(), 1, 1)
    outputs = tuple(
        each.rows_output(SCOPE, [block(1, f"{index}"), block(2, f"{index}x")], index)
        for index, each in enumerate(pair)
    )
    return DataCommit(fence, outputs, (), BODY, CursorMove(None, {"next": 10}))


def test_two_writers_of_one_version_get_numbers_in_the_order_of_their_commits(
    data_world: DataWorld,
) -> None:
    layout = data_world.layout()
    frozen = Frozen("data_commit:before_commit")
    slow = replace(layout, output=data_world.writer(frozen))
    numbers: list[int] = []
    quick = threading.Thread(
        target=lambda: numbers.append(layout.commit(Scope.of_range(10, 19), [block(10, "b")]))
    )
    with frozen.running(lambda: slow.commit(SCOPE, [block(1, "a")])):
        quick.start()
        data_world.wait_until_blocked()
        # It cannot get ahead of the one that has its number and is not committed.
        assert numbers == []
        assert data_world.one("SELECT last_number FROM trace.versions") == 0
    quick.join(10)
    assert (frozen.result, numbers) == (1, [2])


def test_a_crowd_of_writers_leaves_no_gap_at_any_moment(data_world: DataWorld) -> None:
    layout = data_world.layout()
    done = threading.Event()
    seen: list[tuple[int, int]] = []

    def watch() -> None:
        with psycopg.connect(data_world.dsn, autocommit=True) as connection:
            while not done.is_set():
                row = connection.execute(
                    "SELECT count(*), coalesce(max(number), 0) FROM trace.records"
                ).fetchone()
                assert row is not None
                seen.append(row)

    def write(writer: int) -> None:
        rng = random.Random(writer)  # noqa: S311
        for _ in range(25):
            start = 10 * rng.randrange(5)
            layout.commit(Scope.of_range(start, start + 9), [block(start, f"{writer}")])

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=write, args=(each,)) for each in range(3)]
    watcher.start()
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    done.set()
    watcher.join(10)
    assert all(count == highest for count, highest in seen)
    assert data_world.one("SELECT last_number FROM trace.versions") == 75
    assert len(layout.reader.table(layout.part(75))) == 5


def test_commits_to_several_versions_do_not_lock_each_other_out(data_world: DataWorld) -> None:
    one, two = data_world.layout(), data_world.layout()

    def write(layouts: tuple[PostgresLayout, ...]) -> None:
        for _ in range(20):
            fence = data_world.output.advance_fence(data_world.task(), 1, 1)
            outputs = tuple(
                each.rows_output(SCOPE, [block(1, "a")], index)
                for index, each in enumerate(layouts)
            )
            data_world.output.commit(DataCommit(fence, outputs, (), BODY))

    writers = [threading.Thread(target=write, args=(each,)) for each in ((one, two), (two, one))]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    assert data_world.one("SELECT min(last_number) FROM trace.versions") == 40


@pytest.mark.parametrize(
    ("point", "happened"),
    [
        ("data_commit:begin", False),
        ("data_commit:output_written", False),
        ("data_commit:before_commit", False),
        ("data_commit:after_commit", True),
    ],
)
def test_a_crash_at_each_point_of_a_commit_leaves_all_or_nothing(
    data_world: DataWorld, point: str, happened: bool
) -> None:
    pair = _pair(data_world)

    def crash(name: str) -> None:
        if name == point:
            raise Crash

    writer = data_world.writer(crash)
    write = _both(writer, pair, data_world)
    with pytest.raises(Crash):
        writer.commit(write)
    expected = [["0", "0x"], ["1", "1x"]] if happened else [[], []]
    assert [_hashes(each) for each in pair] == expected
    assert data_world.one("SELECT count(*) FROM trace.records") == (2 if happened else 0)
    assert data_world.one("SELECT sum(last_number) FROM trace.versions") == (2 if happened else 0)

    # The next attempt reports what it finds, or does the work.
    task, output = write.fence.task_id, data_world.output
    second = replace(write, fence=output.advance_fence(task, 2, 2))
    assert output.read_cursor(task) == ({"next": 10} if happened else None)
    found = output.find_records(task)
    if found is None:
        found = output.commit(second)
    assert found.fence == (write.fence if happened else second.fence)
    assert [(each.output_index, each.number) for each in found.commits] == [(0, 1), (1, 1)]
    assert [_hashes(each) for each in pair] == [["0", "0x"], ["1", "1x"]]


def test_a_retry_after_a_lost_reply_reports_the_record_and_writes_nothing(
    data_world: DataWorld,
) -> None:
    pair = _pair(data_world)
    write = _both(data_world.output, pair, data_world)
    first = data_world.output.commit(write)
    again = data_world.output.commit(write)
    assert (first.repeated, again.repeated) == (False, True)
    assert replace(again, repeated=False) == first
    data_world.output.advance_fence(write.fence.task_id, 2, 2)
    found = data_world.output.find_records(write.fence.task_id)
    assert found is not None
    assert replace(found, repeated=False) == first
    assert found.commits[0].row_count == 2
    assert data_world.one("SELECT count(*) FROM trace.records") == 2
    assert [_hashes(each) for each in pair] == [["0", "0x"], ["1", "1x"]]


def test_another_call_under_the_same_step_is_refused(data_world: DataWorld) -> None:
    write = _both(data_world.output, _pair(data_world), data_world)
    data_world.output.commit(write)
    with pytest.raises(OutcomeDiffers):
        data_world.output.commit(replace(write, body={"status": "Failed"}))
    later = replace(write, step=1, cursor=CursorMove({"next": 10}, {"next": 20}))
    assert [each.number for each in data_world.output.commit(later).commits] == [2, 2]


def test_a_source_cannot_write_the_same_slice_twice(data_world: DataWorld) -> None:
    layout, task = data_world.layout(cursor_column="number"), data_world.task()
    output = data_world.output

    def slice_(sequence: int, move: CursorMove) -> Any:
        fence = output.advance_fence(task, 1, sequence)
        at = move.value
        rows = layout.rows_output(Scope(cursor=at), [block(at, "a")])
        return output.commit(DataCommit(fence, (rows,), (), BODY, move))

    slice_(1, CursorMove(None, 5))
    for wrong in (CursorMove(None, 5), CursorMove(4, 5), CursorMove({"next": 5}, 6)):
        with pytest.raises(CursorMoved):
            slice_(2, wrong)
    assert output.read_cursor(task) == 5
    slice_(3, CursorMove(5, 6))
    assert output.read_cursor(task) == 6
    with pytest.raises(CursorMoved):
        other = output.advance_fence(data_world.task(), 1, 1)
        output.commit(DataCommit(other, (), (), BODY, CursorMove(5, 6)))
    assert _hashes(layout) == ["a", "a"]


def test_an_attempt_without_outputs_is_recorded_too(data_world: DataWorld) -> None:
    fence = data_world.output.advance_fence(data_world.task(), 1, 1)
    data_world.output.commit(DataCommit(fence, (), (), {"status": "Completed", "events": []}))
    found = data_world.output.find_records(fence.task_id)
    assert found is not None
    assert found.body == {"status": "Completed", "events": []}
    assert found.commits == ()


def test_a_fork_of_one_source_is_recorded_commit_by_commit(data_world: DataWorld) -> None:
    layout, task = data_world.layout(cursor_column="number"), data_world.task()
    fence = data_world.output.advance_fence(task, 1, 1)
    for step, hash_ in enumerate(("a", "b", "a")):
        rows = layout.rows_output(Scope(cursor=7), [block(7, hash_)])
        data_world.output.commit(DataCommit(fence, (rows,), (), BODY, step=step))
    found = [each.commit for each in data_world.output.unregistered()]
    assert [(each.number, each.replaces) for each in found] == [(1, 0), (2, 1), (3, 2)]
    assert [_hashes(layout, pin) for pin in (1, 2, 3)] == [["a"], ["b"], ["a"]]


def test_a_slow_task_with_older_pins_is_superseded_in_the_data_transaction(
    data_world: DataWorld,
) -> None:
    layout, source = data_world.layout(), DatasetUuid(data_world.ids.uuid())
    other = DatasetUuid(data_world.ids.uuid())
    older, newer = data_world.pin(source, 5), data_world.pin(source, 6)
    frozen = Frozen("data_commit:begin")
    slow = replace(layout, output=data_world.writer(frozen))
    with frozen.running(lambda: slow.write(SCOPE, [block(1, "slow")], pins=[older])):
        layout.write(SCOPE, [block(1, "quick")], pins=[newer, data_world.pin(other, 1)])
    assert isinstance(frozen.error, Superseded)
    assert frozen.error.fields["number"] == 1
    assert _hashes(layout) == ["quick"]
    # A pointer swap counts as later, whatever the number.
    layout.write(SCOPE, [block(1, "swapped")], pins=[data_world.pin(source, 1, swap=2)])
    for pins in ([newer], [data_world.pin(source, 10**9)]):
        with pytest.raises(Superseded):
            layout.write(SCOPE, [block(1, "late")], pins=pins)
    # Wider and narrower scopes meet it as well; others, and other inputs, do not.
    with pytest.raises(Superseded):
        layout.write(WHOLE, [], pins=[newer])
    with pytest.raises(Superseded):
        layout.write(Scope.of_range(5, 14), [], pins=[newer])
    layout.write(Scope.of_range(10, 19), [block(10, "beside")], pins=[older])
    layout.write(SCOPE, [block(1, "same")], pins=[data_world.pin(source, 1, swap=2)])
    layout.write(SCOPE, [block(1, "unrelated")], pins=[data_world.pin(other, 0)])
    assert _hashes(layout) == ["beside", "unrelated"]


def test_what_a_refused_task_had_in_hand_is_not_written_either(data_world: DataWorld) -> None:
    first, second = data_world.layout(), data_world.layout()
    source = DatasetUuid(data_world.ids.uuid())
    second.write(SCOPE, [block(1, "new")], pins=[data_world.pin(source, 9)])
    fence = data_world.output.advance_fence(data_world.task(), 1, 1)
    outputs = tuple(
        each.rows_output(SCOPE, [block(1, "old")], index)
        for index, each in enumerate((first, second))
    )
    move = CursorMove(None, 1)
    with pytest.raises(Superseded):
        data_world.output.commit(
            DataCommit(fence, outputs, (data_world.pin(source, 8),), BODY, move)
        )
    assert (_hashes(first), _hashes(second)) == ([], ["new"])
    assert data_world.output.find_records(fence.task_id) is None
    assert data_world.output.read_cursor(fence.task_id) is None


def test_a_rewrite_of_a_smaller_range_closes_exactly_its_rows(data_world: DataWorld) -> None:
    layout = data_world.layout(cursor_column="number")
    layout.commit(SCOPE, [block(n, f"{n}") for n in range(10)])
    layout.commit(Scope.of_range(3, 5), [block(4, "new")])
    assert _hashes(layout) == ["0", "1", "2", "6", "7", "8", "9", "new"]
    # The first commit is still there for those who would go back behind its pins.
    layout.commit(Scope.of_range(0, 4), [])
    assert _hashes(layout) == ["6", "7", "8", "9"]
    assert _hashes(layout, 1) == [f"{n}" for n in range(10)]


def test_pins_are_compared_with_every_commit_that_still_holds_rows(data_world: DataWorld) -> None:
    layout, source = data_world.layout(cursor_column="number"), DatasetUuid(data_world.ids.uuid())
    layout.write(SCOPE, [block(2, "wide")], pins=[data_world.pin(source, 5)])
    layout.write(Scope(cursor=7), [block(7, "point")], pins=[data_world.pin(source, 9)])
    with pytest.raises(Superseded):
        layout.write(Scope.of_range(0, 3), [], pins=[data_world.pin(source, 4)])
    with pytest.raises(Superseded):
        layout.write(SCOPE, [], pins=[data_world.pin(source, 8)])
    layout.write(Scope.of_range(0, 3), [], pins=[data_world.pin(source, 8)])
    layout.write(SCOPE, [block(1, "all")], pins=[data_world.pin(source, 9)])
    assert _hashes(layout) == ["all"]


def test_an_append_deletes_nothing_and_counts_what_is_new(data_world: DataWorld) -> None:
    layout = data_world.layout(update_strategy=APPEND, unique_key=("hash",))
    first = layout.write(WHOLE, [block(1, "a"), block(2, "a"), block(3, "b")])
    again = layout.write(WHOLE, [block(9, "a"), block(4, "c")])
    nothing = layout.write(WHOLE, [block(9, "a")])
    assert [each.commits[0].row_count for each in (first, again, nothing)] == [2, 1, 0]
    assert [each.commits[0].replaces for each in (first, again, nothing)] == [0, 1, 2]
    assert (
        data_world.one(
            f"SELECT count(*) FROM {layout.part(1).schema_name}.{layout.part(1).table_name}"  # noqa: S608
        )
        == 3
    )
    found = layout.reader.table(layout.part(3))
    assert row_hashes(found) == row_hashes([block(1, "a"), block(3, "b"), block(4, "c")])


def test_the_sweep_finds_each_commit_once(data_world: DataWorld) -> None:
    pair = _pair(data_world)
    source = DatasetUuid(data_world.ids.uuid())
    pin = data_world.pin(source, 3)
    for number in range(5):
        pair[0].write(Scope(cursor=number), [block(number, "a")], pins=[pin])
        pair[1].write(Scope(cursor=number), [block(number, f"{number}")])
    output = data_world.output
    found = []
    after: tuple[DatasetVersion, int] | None = None
    while page := output.unregistered(after, limit=3):
        found += page
        after = (page[-1].commit.dataset_version, page[-1].commit.number)
    keys = [(each.commit.dataset_version, each.commit.number) for each in found]
    assert keys == sorted(keys)
    assert len(keys) == 10
    first = next(each for each in found if each.input_pins)
    assert first.input_pins == (pin,)
    assert first.body == BODY
    assert first.committed_at == data_world.clock.now()
    assert (first.fence.attempt, first.commit.scope) == (1, Scope(cursor=0))
    output.mark_registered(keys[:4])
    output.mark_registered(keys[:4])
    left = [(e.commit.dataset_version, e.commit.number) for e in output.unregistered()]
    assert left == keys[4:]


def test_only_versions_that_were_made_can_be_written(data_world: DataWorld) -> None:
    layout = data_world.layout()
    strange = replace(layout, definition=data_world.definition())
    with pytest.raises(NotFound):
        strange.commit(WHOLE, [])
    mixed = replace(layout.definition, dataset_uuid=DatasetUuid(data_world.ids.uuid()))
    with pytest.raises(NotFound):
        replace(layout, definition=mixed).commit(WHOLE, [])
    with pytest.raises(Invalid, match="62 bits"):
        layout.commit(Scope.of_range(0, 2**63 - 1), [])


def test_a_stream_goes_on_at_its_pin_while_others_rewrite_everything(
    data_world: DataWorld,
) -> None:
    layout = data_world.layout(cursor_column="number")
    rows = [block(n, f"{n}") for n in range(1000)]
    layout.commit(WHOLE, rows)
    stream = layout.reader.read(layout.part(1))
    found = [stream.read_next_batch()]
    for _ in range(5):
        layout.commit(WHOLE, [block(0, "other")])
    found += list(stream)
    assert row_hashes(row for batch in found for row in batch.to_pylist()) == row_hashes(rows)
    assert _hashes(layout) == ["other"]
    assert row_hashes(layout.reader.table(layout.part(1))) == row_hashes(rows)


def test_a_refused_commit_takes_no_number(data_world: DataWorld) -> None:
    layout = data_world.layout()
    layout.commit(SCOPE, [block(1, "a")])
    with pytest.raises(PartialOverlap):
        layout.commit(Scope.of_range(5, 14), [block(5, "b")])
    assert layout.commit(Scope.of_range(10, 14), [block(10, "c")]) == 2
    assert _hashes(layout) == ["a", "c"]
