"""The pinned reader: the same rows in, the same rows out, whatever layout they are kept in."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.dataset_layouts import (
    APPEND,
    BLOCKS,
    Layout,
    Layouts,
    block,
    row_hashes,
    table_of,
)
from tests.dataset_model import DatasetModel
from trace_core.adapters.aws.s3 import S3ObjectStore
from trace_core.dag.filter_parser import parse_text
from trace_core.dag.filters import FilterInvalid
from trace_core.dag.model import Column
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.storage.errors import PartialOverlap, RowsInvalid
from trace_core.storage.model import Backend, PinnedPart
from trace_core.storage.scopes import WHOLE

UINT256 = 2**256 - 1
EVERY_TYPE = (
    Column("n", "integer"),
    Column("tiny", "smallint"),
    Column("big", "bigint"),
    Column("words", "text"),
    Column("live", "boolean"),
    Column("ratio", "double precision"),
    Column("rough", "real"),
    Column("money", "numeric(20, 6)"),
    Column("amount", "numeric(78)"),
    Column("wide", "numeric(60, 4)"),
    Column("anything", "numeric"),
    Column("body", "jsonb"),
    Column("at", "timestamptz"),
    Column("day", "date"),
    Column("raw", "bytea"),
    Column("key", "uuid"),
)
KEY = "0b9a2d3e-4c5f-7a6b-8c7d-9e0f1a2b3c4d"
FULL: dict[str, Any] = {
    "n": 1,
    "tiny": -32768,
    "big": 2**63 - 1,
    "words": 'it\'s, "quoted"\n\\N \\. \t é 😀 %(x)s {y}',
    "live": True,
    "ratio": 0.1,
    "rough": 0.5,
    "money": Decimal("-12345678901234.000001"),
    "amount": str(UINT256),
    "wide": "-0.0001",
    "anything": "123456789.000000000000000000000000001",
    "body": '{"a":[1.50,{"ü":null}],"b":"\\n"}',
    "at": datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "day": date(1, 1, 1),
    "raw": b"\x00\xff\\x00,\"'",
    "key": KEY,
}
EMPTY = {**dict.fromkeys(FULL), "n": 2}
EDGES = {
    **FULL,
    "n": 3,
    "words": "",
    "ratio": float("nan"),
    "rough": float("-inf"),
    "raw": b"",
    "body": "null",
    "amount": "0",
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
}


def _rows(layout: Layout, number: int, **asked: Any) -> list[dict[str, Any]]:
    table = layout.reader.table(layout.part(number), **asked)
    return sorted(table.to_pylist(), key=repr)


def _hashes_of(layout: Layout, number: int, **asked: Any) -> list[str]:
    return sorted(layout.reader.table(layout.part(number), **asked)["hash"].to_pylist())


def test_every_value_of_every_type_comes_back_as_it_was(layouts: Layouts) -> None:
    layout = layouts.make(columns=EVERY_TYPE)
    given = table_of([FULL, EMPTY, EDGES], EVERY_TYPE)
    number = layout.commit(WHOLE, given)
    found = layout.reader.table(layout.part(number))
    assert found.schema == given.schema
    assert row_hashes(found) == row_hashes(given)


def test_one_value_has_one_spelling(layouts: Layouts) -> None:
    layout = layouts.make(columns=EVERY_TYPE)
    odd = {
        **FULL,
        "amount": "+007e2",
        "wide": "1e-1",
        "anything": "-0.00",
        "body": ' {"b" : 1e2, "a": -0.0, "b": [ ] } ',
        "key": KEY.upper().replace("-", ""),
    }
    number = layout.commit(WHOLE, table_of([odd], EVERY_TYPE))
    (row,) = _rows(layout, number)
    assert row["amount"] == "700"
    assert row["wide"] == "0.1000"
    assert row["anything"] == "0"
    assert row["body"] == '{"a":0.0,"b":[]}'
    assert row["key"] == KEY


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("words", "nul \0", "NUL"),
        ("amount", "1.5", "decimal places"),
        ("amount", "1" + "0" * 78, "digits before the point"),
        ("amount", "NaN", "finite"),
        ("amount", "many", "no number"),
        ("body", "{", "not JSON"),
        ("body", '"\\u0000"', "cannot store"),
        ("body", "[1e1000000]", "digits"),
        ("key", "no-uuid", "UUID"),
    ],
)
def test_what_one_layout_could_not_keep_no_layout_takes(
    layouts: Layouts, column: str, value: Any, reason: str
) -> None:
    layout = layouts.make(columns=EVERY_TYPE)
    with pytest.raises(RowsInvalid, match=f"{column}.*{reason}"):
        layout.commit(WHOLE, table_of([{**FULL, column: value}], EVERY_TYPE))
    assert layout.commit(WHOLE, table_of([FULL], EVERY_TYPE)) == 1


def test_columns_of_another_shape_are_refused_by_name(layouts: Layouts) -> None:
    layout = layouts.make()
    given = table_of([block(1, "a")], BLOCKS)
    with pytest.raises(RowsInvalid, match="hash"):
        layout.commit(WHOLE, given.drop_columns(["hash"]))
    with pytest.raises(RowsInvalid, match="other"):
        layout.commit(WHOLE, given.append_column("other", pa.array([1])))
    with pytest.raises(RowsInvalid, match=r"number.*cannot hold string"):
        layout.commit(WHOLE, given.set_column(0, "number", pa.array(["1"])))


def test_before_its_first_commit_a_version_has_columns_and_no_rows(layouts: Layouts) -> None:
    layout = layouts.make()
    found = layout.reader.table(layout.part(0))
    assert found.num_rows == 0
    assert found.schema.names == [column.name for column in BLOCKS]


def test_a_fork_a_b_a_gives_three_commits_and_the_rows_of_a(layouts: Layouts) -> None:
    layout = layouts.make(cursor_column="number")
    scope = Scope(cursor=100)
    fork = [block(100, "a"), block(100, "a", 1)], [block(100, "b")]
    numbers = [layout.commit(scope, rows) for rows in (fork[0], fork[1], fork[0])]
    assert numbers == [1, 2, 3]
    assert [_hashes_of(layout, n) for n in range(4)] == [[], ["a", "a"], ["b"], ["a", "a"]]


def test_a_scope_can_be_emptied(layouts: Layouts) -> None:
    layout = layouts.make(cursor_column="number")
    layout.commit(Scope.of_range(0, 9), [block(3, "a")])
    layout.commit(Scope.of_range(10, 19), [block(13, "b")])
    layout.commit(Scope.of_range(0, 9), [])
    assert [_hashes_of(layout, n) for n in (2, 3)] == [["a", "b"], ["b"]]


def test_a_read_gives_the_columns_asked_for_in_their_order(layouts: Layouts) -> None:
    layout = layouts.make()
    number = layout.commit(WHOLE, [block(1, "a", 5), block(2, "b", 6)])
    where = parse_text("amount > 5")
    found = layout.reader.table(layout.part(number), columns=["hash", "number"], where=where)
    assert found.schema.names == ["hash", "number"]
    assert found.to_pylist() == [{"hash": "b", "number": 2}]
    with pytest.raises(Invalid, match="_from"):
        layout.reader.table(layout.part(number), columns=["_from"])
    with pytest.raises(FilterInvalid, match="_from"):
        layout.reader.table(layout.part(number), where=parse_text("_from = 1"))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("number = 3", ["c"]),
        ("number > 3", ["d"]),
        ("number BETWEEN 2 AND 3", ["b", "c"]),
        ("number NOT IN (1, 2)", ["c", "d"]),
        ("hash >= 'c'", ["c", "d"]),
        ("NOT hash = 'a'", ["b", "c", "d"]),
        (f"amount = {UINT256}", ["d"]),
        ("amount IS NULL", ["c"]),
        ("NOT amount = 1", ["b", "d"]),
        ("number = 1 OR number = 99", ["a"]),
        ("number = 99", []),
    ],
)
def test_a_filter_finds_the_same_in_every_layout(
    layouts: Layouts, where: str, found: list[str]
) -> None:
    layout = layouts.make(cursor_column="number")
    layout.commit(Scope.of_range(0, 1), [block(1, "a", 1)])
    third = {**block(3, "c"), "amount": None}
    layout.commit(Scope.of_range(2, 3), [block(2, "b", 2), third])
    number = layout.commit(Scope.of_range(4, 9), [block(4, "d", UINT256)])
    assert _hashes_of(layout, number, where=parse_text(where)) == found


def test_a_filter_of_another_kind_than_its_column_is_refused(layouts: Layouts) -> None:
    layout = layouts.make()
    number = layout.commit(WHOLE, [block(1, "a")])
    for text in ("number = 'one'", "hash = 1", "payload = 'x'", "missing = 1"):
        with pytest.raises(FilterInvalid):
            layout.reader.table(layout.part(number), where=parse_text(text))


def test_rows_with_cursors_are_read_by_the_range_that_they_lie_in(layouts: Layouts) -> None:
    layout = layouts.make(cursor_column="number")
    layout.commit(Scope.of_range(0, 9), [block(n, f"{n:02}") for n in range(10)])
    number = layout.commit(Scope.of_range(10, 19), [block(n, f"{n:02}") for n in range(10, 20)])
    assert _hashes_of(layout, number, scope=Scope.of_range(8, 11)) == ["08", "09", "10", "11"]
    assert _hashes_of(layout, number, scope=Scope(cursor=15)) == ["15"]
    assert _hashes_of(layout, number, scope=Scope.of_range(90, 99)) == []
    assert len(_rows(layout, number, scope=WHOLE)) == 20


def test_a_cursor_outside_its_scope_is_refused(layouts: Layouts) -> None:
    layout = layouts.make(cursor_column="number")
    with pytest.raises(RowsInvalid, match="outside"):
        layout.commit(Scope.of_range(0, 9), [block(10, "a")])
    with pytest.raises(RowsInvalid, match="NULL"):
        layout.commit(Scope.of_range(0, 9), [{**block(1, "a"), "number": None}])
    with pytest.raises(RowsInvalid, match="range"):
        layout.commit(Scope(partition_key="eu"), [block(1, "a")])


def test_other_rows_are_read_with_the_commits_that_meet_the_scope(layouts: Layouts) -> None:
    layout = layouts.make()
    layout.commit(Scope.of_range(0, 9), [block(0, "a"), block(99, "a")])
    layout.commit(Scope.of_range(10, 19), [block(0, "b")])
    number = layout.commit(Scope(partition_key="eu"), [block(0, "c")])
    assert _hashes_of(layout, number, scope=Scope.of_range(5, 6)) == ["a", "a"]
    assert _hashes_of(layout, number, scope=Scope.of_range(5, 10)) == ["a", "a", "b"]
    assert _hashes_of(layout, number, scope=Scope(partition_key="eu")) == ["c"]
    assert _hashes_of(layout, number, scope=Scope(partition_key="us")) == []


def test_a_commit_of_all_takes_the_place_of_everything(layouts: Layouts) -> None:
    layout = layouts.make()
    layout.commit(Scope.of_range(0, 9), [block(0, "a")])
    layout.commit(Scope(partition_key="eu"), [block(0, "b")])
    number = layout.commit(WHOLE, [block(0, "c")])
    assert _hashes_of(layout, number) == ["c"]
    assert _hashes_of(layout, number - 1) == ["a", "b"]
    assert _hashes_of(layout, number, scope=Scope.of_range(7, 7)) == ["c"]
    assert _hashes_of(layout, number, scope=Scope(partition_key="us")) == ["c"]


def test_a_commit_that_would_cut_another_is_refused(layouts: Layouts) -> None:
    layout = layouts.make()
    layout.commit(Scope.of_range(0, 9), [block(0, "a")])
    for scope in (Scope.of_range(5, 14), Scope(cursor=5), Scope.of_range(0, 8)):
        with pytest.raises(PartialOverlap) as refused:
            layout.commit(scope, [block(0, "b")])
        assert refused.value.fields["number"] == 1
    assert layout.commit(Scope.of_range(0, 10), [block(0, "c")]) == 2
    assert _hashes_of(layout, 2) == ["c"]


def test_of_appended_rows_with_one_key_the_first_commits_stays(layouts: Layouts) -> None:
    layout = layouts.make(update_strategy=APPEND, unique_key=("hash",))
    layout.commit(Scope.of_range(0, 9), [block(1, "a"), block(2, "b"), block(3, "a")])
    layout.commit(Scope.of_range(10, 19), [block(11, "b"), block(12, "c")])
    layout.commit(Scope.of_range(0, 9), [block(4, "c"), block(5, "d")])
    expected = [{1: "a", 2: "b"}, {1: "a", 2: "b", 12: "c"}, {1: "a", 2: "b", 12: "c", 5: "d"}]
    for number, wanted in enumerate(expected, start=1):
        found = {row["number"]: row["hash"] for row in _rows(layout, number)}
        assert found == wanted
    # A later row of a key is no row, even where the first one is out of sight.
    assert _hashes_of(layout, 3, scope=Scope.of_range(10, 19)) == ["c"]
    assert _hashes_of(layout, 3, where=parse_text("number = 11")) == []
    assert _hashes_of(layout, 3, where=parse_text("number = 4")) == []


def test_no_name_of_a_column_gets_in_the_way_of_the_first_row_of_a_key(layouts: Layouts) -> None:
    names = ("_number", "_position", "_wanted", "_rank", "__turn", "__ordinal")
    columns = (Column("key", "text"), *(Column(each, "bigint") for each in names))
    layout = layouts.make(columns=columns, update_strategy=APPEND, unique_key=("key",))
    first = {"key": "a", **dict.fromkeys(names, 100)}
    layout.commit(Scope(cursor=1), [first])
    layout.commit(Scope(cursor=2), [{"key": "a", **dict.fromkeys(names, 7)}])
    assert _rows(layout, 2) == [first]


def test_a_unique_key_has_no_null_and_is_not_endless(layouts: Layouts) -> None:
    layout = layouts.make(update_strategy=APPEND, unique_key=("hash",))
    with pytest.raises(RowsInvalid, match="hash"):
        layout.commit(WHOLE, [{**block(1, "a"), "hash": None}])
    with pytest.raises(RowsInvalid, match="hash it"):
        layout.commit(WHOLE, [block(1, "a" * 3000)])


def test_a_reader_can_stop_in_the_middle(layouts: Layouts) -> None:
    layout = layouts.make()
    number = layout.commit(WHOLE, [block(n, "a") for n in range(3000)])
    for _ in range(10):
        stream = layout.reader.read(layout.part(number))
        assert 0 < stream.read_next_batch().num_rows <= 1000
        stream.close()
        del stream
    assert len(_rows(layout, number)) == 3000


@pytest.mark.parametrize("cursor_column", ["number", None])
def test_a_range_that_a_colder_part_covers_is_read_from_there_only(
    layouts: Layouts, cursor_column: str | None
) -> None:
    hot = layouts.make(cursor_column=cursor_column)
    cold = Layouts(layouts.store, layouts.data, layouts.clock, layouts.ids, Backend.S3).make(
        cursor_column=cursor_column
    )
    for start in (0, 10, 20):
        hot.commit(Scope.of_range(start, start + 9), [block(start, f"hot{start}")])
    cold.commit(Scope.of_range(0, 4), [block(0, "cold0")])
    cold.commit(Scope.of_range(5, 19), [block(10, "cold10")])

    def found(hot_part: PinnedPart, cold_part: PinnedPart, **asked: Any) -> list[str]:
        stream = hot.reader.relation([hot_part, cold_part], **asked)
        return sorted(stream.read_all()["hash"].to_pylist())

    assert found(hot.part(3), cold.part(0)) == ["hot0", "hot10", "hot20"]
    # Of the colder part's first commit only half of the hot one is covered.
    half = ["cold0", "hot10", "hot20"] if cursor_column else ["cold0", "hot0", "hot10", "hot20"]
    assert found(hot.part(3), cold.part(1)) == half
    assert found(hot.part(3), cold.part(2)) == ["cold0", "cold10", "hot20"]
    in_scope = found(hot.part(3), cold.part(2), scope=Scope.of_range(10, 29))
    assert in_scope == ["cold10", "hot20"]


@pytest.mark.parametrize("cursor_column", ["number", None])
def test_a_range_is_read_once_though_what_it_came_from_reaches_further(
    layouts: Layouts, cursor_column: str | None
) -> None:
    hot = layouts.make(cursor_column=cursor_column)
    hot.commit(Scope.of_range(0, 9), [block(0, "hot0"), block(7, "hot7")])
    cold = Layouts(layouts.store, layouts.data, layouts.clock, layouts.ids, Backend.S3).make(
        cursor_column="number"
    )
    cold.commit(Scope.of_range(0, 4), [block(0, "cold0")])
    cold.commit(Scope.of_range(5, 9), [block(7, "cold7")])
    first, second = cold.part(2).entries
    for entry, scope, expected in (
        (first, Scope.of_range(0, 4), "cold0"),
        (first, Scope(cursor=0), "cold0"),
        (second, Scope.of_range(6, 8), "cold7"),
    ):
        # Who reads a range is given the commits that meet it, and no others.
        met = replace(cold.part(2), entries=(entry,))
        stream = hot.reader.relation([hot.part(1), met], scope=scope)
        assert stream.read_all()["hash"].to_pylist() == [expected]


def test_events_without_rows_cannot_be_read(layouts: Layouts) -> None:
    layout = layouts.make()
    part = layout.definition.part(0, Backend.CONTROL)
    with pytest.raises(Invalid, match="no rows"):
        layout.reader.read(part)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["replace", "replace_with_cursors", "append"])
def test_the_rows_of_a_pin_never_change(layouts: Layouts, kind: str, seed: int) -> None:
    """Random commits against a plain model; pins are read when they are new and at the end."""
    rng = random.Random(seed)  # noqa: S311
    layout = layouts.make(
        update_strategy=APPEND if kind == "append" else layouts.make().definition.update_strategy,
        unique_key=("hash",) if kind == "append" else (),
        cursor_column="number" if kind == "replace_with_cursors" else None,
    )
    model = DatasetModel(layout.definition, cuts=layout.cuts)
    # The layout is the same in a folder, where a commit costs a tenth.
    commits, refused = (60 if isinstance(layouts.store, S3ObjectStore) else 200), 0
    while model.number < commits:
        scope = model.random_scope(rng)
        rows = model.random_rows(rng, scope)
        if model.would_cut(scope):
            if refused >= 20:
                continue
            refused += 1
            with pytest.raises(PartialOverlap):
                layout.commit(scope, rows)
            continue
        assert layout.commit(scope, rows) == model.commit(scope, rows)
        if rng.random() < 0.1:
            pin = rng.randint(0, model.number)
            assert row_hashes(layout.reader.table(layout.part(pin))) == model.at(pin)
    for pin in sorted(rng.sample(range(commits + 1), 15)):
        assert row_hashes(layout.reader.table(layout.part(pin))) == model.at(pin)
        scope = model.random_scope(rng)
        found = layout.reader.table(layout.part(pin), scope=scope)
        assert row_hashes(found) == model.at(pin, scope)
    assert (refused > 0) is (kind == "replace" or (kind != "append" and not layout.cuts))
