"""What is wrong with a range is found, told and asked for again, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from emr_jobs.catalog import OPERATORS
from tests.spark.runs import Place
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkInput, SparkResult

CHECK = "emr_jobs.operators.integrity_check:run"
BLOCKS = {
    "number": "bigint",
    "hash": "text",
    "parent_hash": "text",
    "transaction_count": "integer",
    "log_count": "integer",
}
TRANSACTIONS = {"block_number": "bigint", "block_hash": "text", "transaction_index": "integer"}
LOGS = {**TRANSACTIONS, "log_index": "integer"}
Row = dict[str, Any]


def chain(first: int, last: int) -> tuple[list[Row], list[Row], list[Row]]:
    """Whole blocks: block n has n % 3 transactions with two logs each."""
    blocks, transactions, logs = [], [], []
    for number in range(first, last + 1):
        count = number % 3
        at = {"block_number": number, "block_hash": f"h{number}"}
        blocks.append(
            {
                "number": number,
                "hash": f"h{number}",
                "parent_hash": f"h{number - 1}",
                "transaction_count": count,
                "log_count": 2 * count,
            }
        )
        transactions += [{**at, "transaction_index": index} for index in range(count)]
        logs += [
            {**at, "transaction_index": index // 2, "log_index": index}
            for index in range(2 * count)
        ]
    return blocks, transactions, logs


def check(
    place: Place,
    blocks: Sequence[Row],
    transactions: Sequence[Row] | None = None,
    logs: Sequence[Row] | None = None,
    *,
    scope: Scope | None = None,
    config: Mapping[str, Any] | None = None,
) -> SparkResult:
    inputs = [SparkInput("ranges"), place.input("blocks", BLOCKS, blocks)]
    if transactions is not None:
        inputs.append(place.input("transactions", TRANSACTIONS, transactions))
    if logs is not None:
        inputs.append(place.input("logs", LOGS, logs))
    return place.run(
        CHECK,
        inputs=tuple(inputs),
        scope=scope or Scope.of_range(10, 19),
        trigger="ranges",
        config=config or {},
    )


def judged(place: Place, result: SparkResult) -> tuple[Row, dict[str, list[tuple[int, int]]]]:
    assert result.failure is None, result.failure
    [written] = result.written
    [verdict] = place.rows_of(written)
    asked: dict[str, list[tuple[int, int]]] = {}
    for each in result.invalidations:
        assert each.scope.range is not None
        asked.setdefault(each.alias, []).append(each.scope.range)
    return verdict, asked


def test_a_whole_range_is_ok(place: Place) -> None:
    result = check(place, *chain(10, 19))
    verdict, asked = judged(place, result)
    assert verdict == {
        "range_start": 10,
        "range_end": 19,
        "verdict": "ok",
        "gaps": 0,
        "duplicates": 0,
        "broken_links": 0,
        "count_mismatches": 0,
        "first_bad": None,
        "reason": None,
        "checked_at": datetime(2026, 1, 15, 12, tzinfo=UTC),
    }
    assert asked == {}
    [written] = result.written
    assert (written.name, written.scope) == ("verdicts", Scope.of_range(10, 19))
    [spec] = [each for each in OPERATORS if each.name == "integrity_check"]
    assert [(each.name, each.type) for each in spec.columns[0]] == [
        (each.name, each.type) for each in written.columns
    ]


@pytest.mark.parametrize(
    ("missing", "gaps"),
    [
        ([10, 11, 15, 18, 19], [(10, 11), (15, 15), (18, 19)]),
        (list(range(10, 20)), [(10, 19)]),
    ],
)
def test_missing_blocks_are_asked_for_again(
    place: Place, missing: list[int], gaps: list[tuple[int, int]]
) -> None:
    blocks = [each for each in chain(10, 19)[0] if each["number"] not in missing]
    verdict, asked = judged(place, check(place, blocks))
    assert (verdict["verdict"], verdict["gaps"]) == ("bad", len(missing))
    assert verdict["first_bad"] == missing[0]
    assert verdict["reason"] == f"{len(missing)} blocks are missing, first {missing[0]}"
    assert (verdict["broken_links"], verdict["duplicates"]) == (0, 0)
    assert asked == {"blocks": gaps}


def test_a_block_that_is_there_twice_is_found(place: Place) -> None:
    blocks = chain(10, 19)[0]
    twice = [blocks[3], {**blocks[6], "hash": "g16"}]
    verdict, asked = judged(place, check(place, [*blocks, *twice]))
    assert (verdict["duplicates"], verdict["gaps"], verdict["first_bad"]) == (2, 0, 13)
    assert asked == {"blocks": [(13, 13), (16, 16)]}


def test_a_broken_link_accuses_both_its_ends(place: Place) -> None:
    blocks = chain(10, 19)[0]
    blocks[4]["parent_hash"] = "other"
    verdict, asked = judged(place, check(place, blocks))
    assert (verdict["broken_links"], verdict["first_bad"]) == (1, 14)
    assert verdict["reason"] == "1 blocks are no children of the one before, first 14"
    assert asked == {"blocks": [(13, 14)]}


@pytest.mark.parametrize("parent", ["h9", None])
def test_the_link_across_the_border_is_checked(place: Place, parent: str | None) -> None:
    blocks = chain(9, 19)[0]
    blocks[1]["parent_hash"] = parent
    verdict, asked = judged(place, check(place, blocks))
    assert verdict["broken_links"] == (0 if parent == "h9" else 1)
    assert asked == ({} if parent == "h9" else {"blocks": [(9, 10)]})


def test_blocks_outside_the_range_are_not_judged(place: Place) -> None:
    blocks = [each for each in chain(0, 30)[0] if each["number"] not in (3, 9, 20, 25)]
    verdict, asked = judged(place, check(place, blocks))
    assert (verdict["verdict"], asked) == ("ok", {})


def test_rows_that_the_header_does_not_count_are_asked_for_again(place: Place) -> None:
    blocks, transactions, logs = chain(10, 19)
    at = {each["block_number"]: index for index, each in reversed(list(enumerate(logs)))}
    logs[at[11]]["block_hash"] = "of another fork"
    logs[at[14]]["transaction_index"] = 1  # the second log is of an earlier transaction
    logs[at[16]]["log_index"] = 7
    logs.append(logs[at[19]])
    del logs[at[13]]
    transactions.pop()
    verdict, asked = judged(place, check(place, blocks, transactions, logs))
    assert (verdict["count_mismatches"], verdict["first_bad"]) == (5, 11)
    assert "the rows of 5 blocks are not those that their header counts" in verdict["reason"]
    assert asked == {
        "transactions": [(19, 19)],
        "logs": [(11, 11), (13, 14), (16, 16), (19, 19)],
    }


def test_rows_of_a_block_that_is_not_there_are_found(place: Place) -> None:
    blocks, transactions, logs = chain(10, 19)
    del blocks[4]
    verdict, asked = judged(place, check(place, blocks, transactions, logs))
    assert (verdict["gaps"], verdict["count_mismatches"], verdict["first_bad"]) == (1, 1, 14)
    assert asked == {
        "blocks": [(14, 14)],
        "transactions": [(14, 14)],
        "logs": [(14, 14)],
    }


def test_the_verdict_alone_can_be_had(place: Place) -> None:
    blocks = chain(10, 18)[0]
    verdict, asked = judged(place, check(place, blocks, config={"invalidate": False}))
    assert (verdict["verdict"], asked) == ("bad", {})


def test_too_many_ranges_become_one_at_the_end(place: Place) -> None:
    blocks = [each for each in chain(10, 19)[0] if each["number"] % 2]
    _, asked = judged(place, check(place, blocks, config={"max_invalidations": 3}))
    assert asked == {"blocks": [(10, 10), (12, 12), (14, 18)]}


def test_columns_may_have_other_names(place: Place) -> None:
    columns = {"height": "bigint", "hash": "text", "parent": "text"}
    rows = [{"height": each, "hash": f"h{each}", "parent": f"h{each - 1}"} for each in (10, 11)]
    result = place.run(
        CHECK,
        inputs=(place.input("heads", columns, rows),),
        scope=Scope.of_range(10, 12),
        trigger="heads",
        config={"columns": {"number": "height", "parent_hash": "parent"}},
    )
    verdict, asked = judged(place, result)
    assert (verdict["gaps"], asked) == (1, {"heads": [(12, 12)]})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"columns": {"number": "height"}}, "an input has no column height"),
        ({"columns": {"nmber": "height"}}, "`columns` names nmber; it knows number"),
        ({"logs": "events"}, "the job has no input 'events'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    place: Place, config: dict[str, Any], reason: str
) -> None:
    result = check(place, chain(10, 19)[0], config=config)
    assert result.failure is not None
    assert reason in result.failure.message


def test_any_harm_is_found_where_it_was_done(place: Place) -> None:
    chance = random.Random(31)  # noqa: S311
    for _ in range(3):
        blocks, _, logs = chain(9, 60)
        gone = set(chance.sample(range(10, 61), chance.randint(0, 6)))
        forked = set(chance.sample(range(10, 61), chance.randint(0, 3))) - gone
        lost = {each for each in chance.sample(range(10, 61), chance.randint(0, 3)) if each % 3}
        kept = [dict(each) for each in blocks if each["number"] not in gone]
        for each in kept:
            if each["number"] in forked:
                each["parent_hash"] = "other"
        there = [each for each in logs if each["block_number"] not in gone]
        for number in lost - gone:
            there.remove(next(each for each in there if each["block_number"] == number))
        chance.shuffle(kept)
        verdict, asked = judged(
            place, check(place, kept, None, there, scope=Scope.of_range(10, 60))
        )
        linked = {each for each in forked if each - 1 not in gone}
        bad = gone | linked | {each - 1 for each in linked}
        assert covered(asked.get("blocks", [])) == bad
        assert covered(asked.get("logs", [])) == lost - gone
        assert (verdict["gaps"], verdict["broken_links"], verdict["count_mismatches"]) == (
            len(gone),
            len(linked),
            len(lost - gone),
        )
        # No range touches the next one, or they would be one.
        for ranges in asked.values():
            ends = [end for _, end in ranges]
            assert all(s > e + 1 for (s, _), e in zip(ranges[1:], ends, strict=False))


def covered(ranges: Sequence[tuple[int, int]]) -> set[int]:
    return {each for first, last in ranges for each in range(first, last + 1)}
