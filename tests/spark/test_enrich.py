"""enrich: columns of other inputs beside the rows, and keys that are there twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.runs import Place
from trace_core.spark.wire import SparkColumn, SparkResult

RUN = "emr_jobs.operators.enrich:run"
MOVES = {"block_number": "bigint", "sender": "text", "value": "numeric(78,0)"}
LABELS = {"address": "text", "label": "text", "supply": "numeric(78,0)"}
ROWS: list[dict[str, Any]] = [
    {"block_number": 1, "sender": "0xAb", "value": "1"},
    {"block_number": 2, "sender": "0xcd", "value": str(2**256 - 1)},
    {"block_number": 3, "sender": None, "value": None},
]
BOTH = [
    {"address": "0xab", "label": "shop", "supply": "7"},
    {"address": "0xab", "label": "bank", "supply": "9"},
]


def run(place: Place, labels: list[dict[str, Any]], **lookup: Any) -> SparkResult:
    given = {"input": "labels", "keys": {"sender": "address"}, "match": "address", **lookup}
    inputs = (place.input("moves", MOVES, ROWS), place.input("labels", LABELS, labels))
    config = {"lookups": [given], "sort_by": ["block_number"]}
    return place.run(RUN, inputs=inputs, config=config)


def labels_of(place: Place, result: SparkResult, name: str = "label") -> list[Any]:
    assert result.failure is None, result.failure
    return [row[name] for row in place.rows_of(result.written[0])]


def test_addresses_match_in_any_case_and_types_are_kept(place: Place) -> None:
    result = run(place, BOTH[:1], prefix="sender_")
    assert labels_of(place, result, "sender_label") == ["shop", None, None]
    assert result.written[0].columns == (
        SparkColumn("block_number", "bigint"),
        SparkColumn("sender", "text"),
        SparkColumn("value", "numeric(78,0)"),
        SparkColumn("sender_label", "text"),
        SparkColumn("sender_supply", "numeric(78,0)"),
    )


def test_an_exact_match_tells_cases_apart_and_inner_drops(place: Place) -> None:
    assert labels_of(place, run(place, BOTH[:1], match="exact")) == [None, None, None]
    assert labels_of(place, run(place, BOTH[:1], how="inner")) == ["shop"]


def test_a_key_that_is_there_twice_fails_unless_somebody_said_what_to_do(place: Place) -> None:
    failure = run(place, BOTH).failure
    assert failure is not None
    assert "input labels has several rows for 0xab" in failure.message
    assert not failure.retryable
    assert labels_of(place, run(place, BOTH, many="lowest")) == ["bank", None, None]
    assert sorted(map(str, labels_of(place, run(place, BOTH, many="all")))) == [
        "None",
        "None",
        "bank",
        "shop",
    ]


def test_rows_that_say_the_same_are_one(place: Place) -> None:
    assert labels_of(place, run(place, BOTH[:1] * 2)) == ["shop", None, None]


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        ({"keys": {"sendr": "address"}}, "no column sendr"),
        ({"columns": ["lable"]}, "no column lable"),
        ({"keys": {"block_number": "address"}, "match": "exact"}, "never equal"),
        ({"columns": ["label"], "prefix": "", "keys": {"value": "supply"}}, "is no text"),
        ({"columns": ["address"], "keys": {"sender": "label"}, "input": "moves"}, "no column"),
    ],
)
def test_what_cannot_be_joined_is_named(place: Place, lookup: dict[str, Any], said: str) -> None:
    failure = run(place, BOTH[:1], **lookup).failure
    assert failure is not None
    assert said in failure.message
