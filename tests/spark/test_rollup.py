"""rollup: exact sums of any size, buckets, and ranges that would cut a bucket in two."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.spark.runs import Place
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkColumn, SparkFailure

RUN = "emr_jobs.operators.rollup:run"
MOVES = {"block_number": "bigint", "token": "text", "value": "numeric(78,0)"}
CONFIG: dict[str, Any] = {
    "group_by": ["token"],
    "bucket": {"by": "cursor", "column": "block_number", "size": 10, "name": "from_block"},
    "aggregates": {
        "moves": {"function": "count"},
        "total": {"function": "sum", "column": "value"},
        "least": {"function": "min", "column": "value"},
        "most": {"function": "max", "column": "value"},
        "mean": {"function": "avg", "column": "value"},
        "kinds": {"function": "count_distinct", "column": "value"},
        "blocks": {"function": "sum", "column": "block_number"},
    },
}


def failure(place: Place, rows: list[dict[str, Any]], scope: Scope, **config: Any) -> SparkFailure:
    given = place.input("moves", MOVES, rows, cursor_column="block_number")
    found = place.run(RUN, inputs=(given,), config={**CONFIG, **config}, scope=scope).failure
    assert found is not None
    return found


@pytest.mark.parametrize("kinds", [True, False], ids=["with distinct values", "without"])
def test_figures_equal_those_of_python_for_numbers_of_any_size(place: Place, kinds: bool) -> None:
    """What counts distinct values groups rows once, what does not in two steps."""
    config = {
        **CONFIG,
        "aggregates": {
            name: each
            for name, each in CONFIG["aggregates"].items()
            if kinds or each["function"] != "count_distinct"
        },
    }
    chance = random.Random(5)  # noqa: S311
    sizes = (1, 5, 9, 19, 27, 28, 29, 38, 55, 56, 57, 64, 77)
    rows: list[dict[str, Any]] = [
        {
            "block_number": chance.randrange(40),
            "token": chance.choice("ab"),
            "value": str(
                chance.choice((1, 1, 1, -1)) * chance.randrange(10 ** chance.choice(sizes))
            ),
        }
        for _ in range(400)
    ]
    rows += [{"block_number": 1, "token": "a", "value": str(2**256 - 1)}] * 3
    rows += [{"block_number": 11, "token": "a", "value": str(-(2**255))}] * 3
    rows += [{"block_number": 45, "token": "c", "value": None}]
    rows += [{"block_number": 46, "token": "d", "value": each} for each in ("-5", "5", "0")]
    groups: dict[tuple[int, str], list[int | None]] = defaultdict(list)
    blocks: dict[tuple[int, str], int] = defaultdict(int)
    for row in rows:
        key = (row["block_number"] // 10 * 10, row["token"])
        groups[key].append(None if row["value"] is None else int(row["value"]))
        blocks[key] += row["block_number"]
    given = place.input("moves", MOVES, rows, cursor_column="block_number")
    scope = Scope.of_range(0, 49)
    result = place.run(RUN, inputs=(given,), config=config, scope=scope)
    assert result.failure is None, result.failure
    [written] = result.written
    assert written.cursor_column == "from_block"
    assert SparkColumn("total", "numeric(97)") in written.columns
    assert SparkColumn("most", "numeric(78,0)") in written.columns
    assert SparkColumn("blocks", "numeric(38)") in written.columns
    found = {(row["from_block"], row["token"]): row for row in place.rows_of(written)}
    assert found.keys() == groups.keys()
    for key, values in groups.items():
        known = [each for each in values if each is not None]
        row = found[key]
        assert row["moves"] == len(values)
        assert not kinds or row["kinds"] == len(set(known))
        assert row["total"] == (str(sum(known)) if known else None)
        assert row["least"] == (str(min(known)) if known else None)
        assert row["most"] == (str(max(known)) if known else None)
        assert row["blocks"] == Decimal(blocks[key])
        if known:
            assert row["mean"] == pytest.approx(sum(known) / len(known))


def test_no_rows_are_one_row_of_nothing_without_groups(place: Place) -> None:
    given = place.input("moves", MOVES)
    aggregates = {
        "moves": {"function": "count"},
        "most": {"function": "max", "column": "value"},
        "total": {"function": "sum", "column": "value"},
    }
    rows = place.rows(RUN, inputs=(given,), config={"aggregates": aggregates})
    assert rows == [{"moves": 0, "most": None, "total": None}]


def test_decimals_that_are_exact_text_keep_their_digits(place: Place) -> None:
    columns = {"price": "numeric(60,2)"}
    prices = ["0.10", "-12345678901234567890123456789012345678901234567890.25", "7", "-0.5"]
    given = place.input("prices", columns, [{"price": each} for each in prices])
    aggregates = {name: {"function": name, "column": "price"} for name in ("sum", "min", "max")}
    [row] = place.rows(RUN, inputs=(given,), config={"aggregates": aggregates})
    assert Decimal(row["sum"]) == Decimal("-12345678901234567890123456789012345678901234567883.65")
    assert Decimal(row["min"]) == Decimal(prices[1])
    assert Decimal(row["max"]) == 7


def test_a_range_that_cuts_a_bucket_in_two_is_refused(place: Place) -> None:
    found = failure(place, [], Scope.of_range(5, 19))
    assert "cuts buckets of 10 in two" in found.message
    assert not found.retryable
    found = failure(place, [], Scope.of_range(0, 18))
    assert "5-19" not in found.message
    found = failure(place, [], Scope.of_range(0, 9), bucket=None)
    assert "partial: true" in found.message


def test_a_partition_that_is_no_range_is_a_part_as_well(place: Place) -> None:
    """Other partitions hold rows of the same group, and of the same bucket."""
    rows = [{"block_number": 1, "token": "a", "value": "5"}]
    for config in ({}, {"bucket": None}):
        found = failure(place, rows, Scope(partition_key="2026-01-15"), **config)
        assert "2026-01-15" in found.message
        assert not found.retryable


def test_parts_of_a_bucket_say_which_range_they_are_of(place: Place) -> None:
    start = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
    columns = {"number": "bigint", "timestamp": "timestamptz"}
    rows = [
        {"number": each, "timestamp": start + timedelta(minutes=10 * each)} for each in range(10)
    ]
    config = {
        "bucket": {"by": "time", "column": "timestamp", "size": 3600, "name": "hour"},
        "aggregates": {"blocks": {"function": "count"}},
        "partial": True,
    }
    totals: dict[datetime, int] = defaultdict(int)
    for first, last in ((0, 4), (5, 9)):
        given = place.input("blocks", columns, rows[first : last + 1], cursor_column="number")
        scope = Scope.of_range(first, last)
        result = place.run(RUN, inputs=(given,), config=config, scope=scope)
        assert result.failure is None, result.failure
        [written] = result.written
        assert written.cursor_column == "range_start"
        for row in place.rows_of(written):
            assert (row["range_start"], row["range_end"]) == (first, last)
            totals[row["hour"]] += row["blocks"]
    hours = [datetime(2026, 1, 1, 23, tzinfo=UTC) + timedelta(hours=each) for each in range(3)]
    assert totals == dict(zip(hours, (3, 6, 1), strict=True))
