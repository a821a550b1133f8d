"""What an operator reads: the relation at its pin, in scope, behind its `where`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from emr_jobs.files import Files
from emr_jobs.relation import relation
from emr_jobs.task import OperatorFailed
from tests.spark.runs import Place, columns_of, table
from trace_core.dag.filters import FilterInvalid
from trace_core.spark.wire import SparkInput, SparkPart
from trace_core.storage.objects import parquet_bytes

BLOCKS = {"number": "bigint", "hash": "text"}


def numbers(place: Place, given: SparkInput) -> list[int]:
    return sorted(
        row["number"] for row in relation(place.spark, Files(place.spark), given).collect()
    )


def blocks(first: int, last: int) -> list[dict[str, object]]:
    return [{"number": each, "hash": f"0x{each:02x}"} for each in range(first, last + 1)]


def test_the_parts_of_an_input_are_one_relation(place: Place) -> None:
    hot = SparkPart((place.object(BLOCKS, blocks(5, 9)),), "number")
    cold = SparkPart((place.object(BLOCKS, blocks(0, 2)), place.object(BLOCKS, blocks(3, 4))))
    given = SparkInput("blocks", columns_of(BLOCKS), (hot, cold))
    assert numbers(place, given) == list(range(10))


def test_rows_outside_the_kept_ranges_are_not_read(place: Place) -> None:
    objects = (
        place.object(BLOCKS, blocks(0, 9), keep=((2, 3), (7, 7))),
        place.object(BLOCKS, blocks(10, 19), keep=()),
        place.object(BLOCKS, blocks(20, 21)),
    )
    given = SparkInput("blocks", columns_of(BLOCKS), (SparkPart(objects, "number"),))
    assert numbers(place, given) == [2, 3, 7, 20, 21]


def test_kept_ranges_and_filters_reach_the_scan(place: Place) -> None:
    part = SparkPart((place.object(BLOCKS, blocks(0, 9), keep=((2, 7),)),), "number")
    given = SparkInput("blocks", columns_of(BLOCKS), (part,), "hash = '0x03' AND number < 6")
    found = relation(place.spark, Files(place.spark), given)
    plan = found._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    [pushed] = [line for line in plan.splitlines() if "PushedFilters" in line]
    for each in (
        "GreaterThanOrEqual(number,2)",
        "LessThanOrEqual(number,7)",
        "EqualTo(hash,0x03)",
        "LessThan(number,6)",
    ):
        assert each in pushed
    assert [row["number"] for row in found.collect()] == [3]


@pytest.mark.parametrize("kind", ["real", "double precision"])
def test_nan_is_greater_than_any_number_also_to_the_scan(place: Place, kind: str) -> None:
    columns = {"number": "bigint", "ratio": kind}
    rows = [{"number": 1, "ratio": 1.0}, {"number": 2, "ratio": float("nan")}]
    given = place.input("rows", columns, rows)
    for where, expected in (
        ("ratio > 5", [2]), ("ratio >= 5", [2]), ("ratio <> 1", [2]), ("ratio < 5", [1]),
        ("NOT ratio <= 5", [2]), ("ratio IN (1)", [1]),
    ):  # fmt: skip
        assert numbers(place, replace(given, where=where)) == expected, where
    # Where an operator filters by itself, objects of the platform say nothing that would mislead.
    (stored,) = given.parts[0].objects
    Path(stored.uri.removeprefix("file://")).write_bytes(parquet_bytes(table(columns, rows)))
    found = relation(place.spark, Files(place.spark), given).where(F.col("ratio") > 5)
    assert [row["number"] for row in found.collect()] == [2]


def test_only_the_columns_that_are_used_are_scanned(place: Place) -> None:
    given = place.input("blocks", BLOCKS, blocks(0, 3))
    found = relation(place.spark, Files(place.spark), given).select("number")
    plan = found._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert "ReadSchema: struct<number:bigint>" in plan


def test_an_object_of_before_a_column_was_added_gives_null(place: Place) -> None:
    old = place.object(BLOCKS, blocks(0, 0))
    wider = {**BLOCKS, "miner": "text"}
    new = place.object(wider, [{"number": 1, "hash": "0x01", "miner": "0xaa"}])
    given = SparkInput("blocks", columns_of(wider), (SparkPart((old, new)),))
    rows = relation(place.spark, Files(place.spark), given).orderBy("number").collect()
    assert [tuple(row) for row in rows] == [(0, "0x00", None), (1, "0x01", "0xaa")]


def test_every_column_type_is_read_as_it_was_stored(place: Place) -> None:
    columns = {
        "a": "text",
        "b": "bigint",
        "c": "integer",
        "d": "smallint",
        "e": "boolean",
        "f": "real",
        "g": "double precision",
        "h": "numeric(38,2)",
        "i": "numeric(78)",
        "j": "timestamptz",
        "k": "date",
        "l": "bytea",
        "m": "uuid",
        "n": "jsonb",
        "o": "numeric",
    }
    row = {
        "a": "é",
        "b": 2**63 - 1,
        "c": -(2**31),
        "d": 7,
        "e": True,
        "f": 0.5,
        "g": 1e300,
        "h": Decimal("123456789012345678901234567890123456.78"),
        "i": str(2**256 - 1),
        "j": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "k": date(1, 1, 1),
        "l": b"\x00\xff",
        "m": "0b9a2d3e-4c5f-4a6b-8c7d-9e0f1a2b3c4d",
        "n": '{"a": 1}',
        "o": "0.1",
    }
    nothing = dict.fromkeys(row)
    result = place.run(
        "tests.spark.operators_for_tests:copy",
        inputs=(place.input("rows", columns, [row, nothing]),),
        config={"one_file": True},
    )
    assert result.failure is None
    [written] = result.written
    assert place.rows_of(written) == [row, nothing]
    assert {each.name: each.type for each in written.columns} == columns


def test_of_an_appended_key_the_first_row_counts(place: Place) -> None:
    columns = {"key": "text", "number": "bigint", "value": "integer"}
    later = place.object(columns, [{"key": "a", "number": 1, "value": 9}], number=7)
    first = place.object(
        columns,
        [
            {"key": "a", "number": 5, "value": 1},
            {"key": "a", "number": 6, "value": 2},
            {"key": "b", "number": 6, "value": 3},
        ],
        number=3,
    )
    part = SparkPart((later, first), "number", ("key",))
    found = relation(
        place.spark, Files(place.spark), SparkInput("rows", columns_of(columns), (part,))
    )
    assert sorted(map(tuple, found.collect())) == [("a", 5, 1), ("b", 6, 3)]


def test_no_name_of_a_column_gets_in_the_way_of_the_first_row_of_a_key(place: Place) -> None:
    names = ("__ordinal", "__position", "__file", "__wanted", "__place", "__turn")
    columns = {"key": "text", **dict.fromkeys(names, "bigint")}
    first, later = (
        place.object(columns, [{"key": "a", **dict.fromkeys(names, value)}], number=number)
        for number, value in ((1, 100), (2, 7))
    )
    given = SparkInput("rows", columns_of(columns), (SparkPart((first, later), None, ("key",)),))
    (row,) = relation(place.spark, Files(place.spark), given).collect()
    assert row.asDict() == {"key": "a", **dict.fromkeys(names, 100)}


def test_a_filter_or_a_range_does_not_bring_a_second_row_of_a_key_to_light(place: Place) -> None:
    columns = {"key": "text", "number": "bigint"}
    first = place.object(columns, [{"key": "a", "number": 1}], number=1, keep=())
    second = place.object(
        columns, [{"key": "a", "number": 5}, {"key": "b", "number": 6}], number=2, keep=((5, 9),)
    )
    part = SparkPart((first, second), "number", ("key",))
    given = SparkInput("rows", columns_of(columns), (part,))
    assert numbers(place, given) == [6]
    whole = SparkPart(
        (place.object(columns, [{"key": "a", "number": 1}], number=1), second), "number", ("key",)
    )
    filtered = SparkInput("rows", columns_of(columns), (whole,), "number >= 5")
    assert numbers(place, filtered) == [6]


def test_objects_in_folders_with_special_characters_are_read_once(place: Place) -> None:
    objects = tuple(
        place.object(
            {"key": "text", "number": "bigint"},
            [{"key": str(each), "number": each}],
            folder="my [1] {x} + 100%/chain=1",
        )
        for each in range(2)
    )
    columns = columns_of({"key": "text", "number": "bigint"})
    for key in ((), ("key",)):
        given = SparkInput("rows", columns, (SparkPart(objects, None, key),))
        assert numbers(place, given) == [0, 1]


def test_an_input_without_objects_is_empty_with_its_columns(place: Place) -> None:
    found = relation(
        place.spark, Files(place.spark), SparkInput("blocks", columns_of(BLOCKS), (SparkPart(),))
    )
    assert (found.columns, found.count()) == (["number", "hash"], 0)


def test_an_input_that_nobody_has_described_is_refused_by_name(place: Place) -> None:
    with pytest.raises(OperatorFailed, match="input blocks has no columns yet"):
        relation(place.spark, Files(place.spark), SparkInput("blocks"))


def test_a_filter_on_an_unknown_column_is_refused(place: Place) -> None:
    given = place.input("blocks", BLOCKS, blocks(0, 1), where="nmber = 1")
    with pytest.raises(FilterInvalid, match="there is no column `nmber`"):
        relation(place.spark, Files(place.spark), given)


def test_an_object_that_is_gone_is_an_error(place: Place) -> None:
    given = place.input("rows", BLOCKS, blocks(0, 1))
    for path in place.root.rglob("*.parquet"):
        path.unlink()
    result = place.run("tests.spark.operators_for_tests:copy", inputs=(given,))
    assert result.failure is not None
    assert result.written == ()
