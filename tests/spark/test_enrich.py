"""enrich: columns of other inputs beside the rows, and keys that are there twice."""

from __future__ import annotations

import itertools
import random
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


@pytest.mark.parametrize("many", ["fail", "lowest", "all"])
def test_any_rows_are_joined_as_python_joins_them(place: Place, many: str) -> None:
    chance = random.Random(14)  # noqa: S311
    keys = ["0xaa", "0xAA", "0xbb", "0xBb", "0xcc", None]
    for how, match, twice in itertools.product(("left", "inner"), ("exact", "address"), (0, 1)):
        rows = [{"chain": "aBc"[at % 3], "sender": chance.choice(keys)} for at in range(20)]
        labels = [
            {
                "chain": chance.choice("abc"),
                "address": chance.choice(keys),
                "label": label,
                "rank": rank,
            }
            for label, rank in itertools.product(("a", "b", None), (1, None))
        ] * (1 + twice)
        lookup = {"input": "labels", "keys": {"chain": "chain", "sender": "address"}, "many": many,
                  "how": how, "match": match, "prefix": "of_"}  # fmt: skip
        given = (
            place.input("rows", {"chain": "text", "sender": "text"}, rows),
            place.input(
                "labels",
                {"chain": "text", "address": "text", "label": "text", "rank": "bigint"},
                labels,
            ),
        )
        result = place.run(RUN, inputs=given, config={"lookups": [lookup]})
        wanted = joined(rows, labels, how, match == "address", many)
        if wanted is None:
            assert result.failure is not None
            assert "several rows for" in result.failure.message
            continue
        assert result.failure is None, result.failure
        found = [tuple(row.values()) for row in place.rows_of(result.written[0])]
        assert sorted(found, key=str) == sorted(wanted, key=str)


def joined(
    rows: list[dict[str, Any]], labels: list[dict[str, Any]], how: str, lower: bool, many: str
) -> list[tuple[Any, ...]] | None:
    """The same in a few lines; nothing where a key is there twice and must not be."""

    def key(chain: str, text: str | None) -> tuple[str, str] | None:
        if text is None:
            return None
        return (chain.lower(), text.lower()) if lower else (chain, text)

    known: dict[Any, list[tuple[Any, ...]]] = {}
    for each in labels:
        if (place := key(each["chain"], each["address"])) is not None:
            known.setdefault(place, []).append((each["label"], each["rank"]))
    if many == "fail" and any(len(set(each)) > 1 for each in known.values()):
        return None
    if many != "all":
        # NULL comes before all values.
        known = {place: [min(each, key=_nulls_first)] for place, each in known.items()}
    found: list[tuple[Any, ...]] = []
    for row in rows:
        there = known.get(
            key(row["chain"], row["sender"]), [] if how == "inner" else [(None, None)]
        )
        found += [(row["chain"], row["sender"], *each) for each in there]
    return found


def _nulls_first(row: tuple[Any, ...]) -> list[Any]:
    return [(each is not None, each) for each in row]
