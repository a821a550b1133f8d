"""Hot rows and small files of a range become one sorted file."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from emr_jobs.operators.inputs import row_inputs
from emr_jobs.operators.parquet_compact import Table, found_in
from emr_jobs.task import SparkTask
from tests.spark.runs import Place, columns_of
from trace_core.dag.model import Column
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkInput, SparkPart, SparkResult
from trace_core.storage.rows import arrow_schema

COMPACT = "emr_jobs.operators.parquet_compact:run"
BLOCKS = {"number": "bigint", "hash": "text", "base_fee_per_gas": "numeric(78)"}
LOGS = {"block_number": "bigint", "transaction_index": "integer", "log_index": "integer"}
HEADS = {"latest": "bigint", "followed": "bigint"}
RANGE = Scope.of_range(0, 9)


def blocks(*numbers: int) -> list[dict[str, Any]]:
    return [
        {"number": each, "hash": f"0x{each:02x}", "base_fee_per_gas": str(2**256 - 1 - each)}
        for each in numbers
    ]


def hot(place: Place, *files: list[dict[str, Any]]) -> SparkInput:
    parts = SparkPart(tuple(place.object(BLOCKS, rows) for rows in files), "number")
    return SparkInput("hot", columns_of(BLOCKS), (parts,))


def ranges() -> SparkInput:
    """What triggers: events without rows."""
    return SparkInput("ranges")


def compact(
    place: Place, *inputs: SparkInput, config: Mapping[str, Any] | None = None, **changes: Any
) -> SparkResult:
    given = {"scope": RANGE, "trigger": "ranges", **changes}
    return place.run(COMPACT, inputs=(ranges(), *inputs), config=config or {}, **given)


def failure(result: SparkResult) -> tuple[str, str, bool]:
    assert result.failure is not None
    assert result.written == ()
    return result.failure.code, result.failure.message, result.failure.retryable


def test_many_files_become_one_sorted_file_named_after_the_rows(place: Place) -> None:
    numbers = random.Random(7).sample(range(10), 10)  # noqa: S311
    files = [blocks(*numbers[at : at + 2]) for at in range(0, 10, 2)]
    result = compact(place, hot(place, *files), config={"name": "blocks", "sort_by": ["number"]})
    assert result.failure is None
    [written] = result.written
    assert len(written.objects) == 1
    assert place.rows_of(written) == blocks(*range(10))
    assert (written.name, written.cursor_column, written.scope) == ("blocks", "number", RANGE)
    [table] = place.tables_of(written)
    assert table.schema.remove_metadata().equals(
        arrow_schema([Column(name, kind) for name, kind in BLOCKS.items()])
    )


def test_the_same_rows_in_other_files_give_the_same_bytes(place: Place) -> None:
    contents = []
    for files in ([blocks(*range(10))], [blocks(9, 3, 1), blocks(0, 2, 4, 5), blocks(8, 7, 6)]):
        result = compact(place, hot(place, *files))
        [written] = result.written
        folder = place.outputs[0].uri.removeprefix("file://")
        contents.append(Path(folder, written.objects[0]).read_bytes())
    assert contents[0] == contents[1]


def test_only_rows_of_the_range_are_taken(place: Place) -> None:
    result = compact(place, hot(place, blocks(*range(30))), scope=Scope.of_range(10, 19))
    [written] = result.written
    assert place.rows_of(written) == blocks(*range(10, 20))


def test_several_inputs_are_compacted_in_one_task(place: Place) -> None:
    logs = [
        {"block_number": each // 3, "transaction_index": each % 3 // 2, "log_index": each % 3}
        for each in range(30)
    ]
    shuffled = random.Random(1).sample(logs, len(logs))  # noqa: S311
    result = compact(
        place,
        hot(place, blocks(3, 1, 2)),
        place.input("hot_logs", LOGS, shuffled),
        config={
            "tables": [{"input": "hot_logs", "name": "logs"}, {"input": "hot", "name": "blocks"}]
        },
        outputs=(place.output(0), place.output(1)),
    )
    assert result.failure is None
    assert [(each.output_index, each.name) for each in result.written] == [
        (0, "logs"),
        (1, "blocks"),
    ]
    assert place.rows_of(result.written[0]) == logs
    assert place.rows_of(result.written[1]) == blocks(1, 2, 3)


def test_rows_that_were_rewritten_are_compacted_again(place: Place) -> None:
    """A task that the rewrite made, where nobody announces ranges again."""
    given = {"scope": Scope.of_range(3, 12), "trigger": "hot", "triggers": ("ranges",)}
    result = compact(place, hot(place, blocks(*range(20))), place.input("logs", LOGS), **given,
                     outputs=(place.output(0), place.output(1)))  # fmt: skip
    assert place.rows_of(result.written[0]) == blocks(*range(3, 13))


def test_what_triggers_is_said_by_the_wiring_also_where_rows_were_rewritten(place: Place) -> None:
    given = place.payload(
        COMPACT, inputs=(ranges(), hot(place), SparkInput("logs")), trigger="hot",
        triggers=("ranges",),
    )  # fmt: skip
    assert row_inputs(SparkTask.of(given)) == ["hot", "logs"]


def test_inputs_without_outputs_of_their_own_are_refused(place: Place) -> None:
    code, message, _ = failure(compact(place, hot(place, blocks(1)), place.input("hot_logs", LOGS)))
    assert code == "ConfigInvalid"
    assert "2 inputs are to be compacted (hot, hot_logs), and the job has 1 outputs" in message


def test_a_range_without_rows_is_a_file_without_rows(place: Place) -> None:
    [written] = compact(place, hot(place, blocks(99))).written
    [table] = place.tables_of(written)
    assert (table.num_rows, table.schema.names) == (0, list(BLOCKS))


def test_a_block_that_is_there_twice_is_refused(place: Place) -> None:
    twice = {**blocks(4)[0], "hash": "0xff"}
    code, message, retryable = failure(compact(place, hot(place, blocks(*range(10)), [twice])))
    assert (code, retryable) == ("DuplicateRows", False)
    assert "1 rows of hot in 0-9 are there twice, first number 4" in message


def test_a_log_that_is_there_twice_is_refused(place: Place) -> None:
    logs = [{"block_number": 1, "transaction_index": index, "log_index": 0} for index in range(2)]
    code, message, _ = failure(compact(place, place.input("hot", LOGS, logs)))
    assert (code, "first block_number 1, log_index 0" in message) == ("DuplicateRows", True)


def test_what_identifies_a_row_can_be_said(place: Place) -> None:
    twice = {**blocks(4)[0], "hash": "0xff"}
    for unique in ([], ["number", "hash"]):
        result = compact(place, hot(place, blocks(4), [twice]), config={"unique": unique})
        assert result.failure is None
        assert len(place.rows_of(result.written[0])) == 2


def test_a_gap_is_refused_where_none_may_be(place: Place) -> None:
    config = {"expect": "contiguous"}
    for missing, first in (((0, 1), 0), ((5,), 5), ((9,), 9)):
        there = [each for each in range(10) if each not in missing]
        code, message, retryable = failure(
            compact(place, hot(place, blocks(*there)), config=config)
        )
        assert (code, retryable) == ("RangeIncomplete", True)
        assert f"{len(missing)} of 10 cursors of 0-9 have no row in hot, first {first}" in message
    assert compact(place, hot(place, blocks(*range(10))), config=config).failure is None


@pytest.mark.parametrize(
    ("head", "final"), [((73, 73), True), ((72, 72), False), ((99, 72), False), (None, False)]
)
def test_a_range_waits_until_its_end_is_final(
    place: Place, head: tuple[int, int] | None, final: bool
) -> None:
    rows = [] if head is None else [{"latest": head[0], "followed": head[1]}]
    result = compact(
        place,
        hot(place, blocks(*range(10))),
        place.input("heads", HEADS, rows),
        config={"heads": "heads", "finality_depth": 64},
    )
    if final:
        assert place.rows_of(result.written[0]) == blocks(*range(10))
    else:
        code, message, retryable = failure(result)
        assert (code, retryable) == ("NotFinal", True)
        assert "ends at 9, which is not final at depth 64" in message


def test_rows_without_a_cursor_are_refused(place: Place) -> None:
    code, message, _ = failure(
        compact(place, hot(place, [{"number": None}]), config={"unique": []})
    )
    assert (code, "1 rows of hot have no number" in message) == ("RowsInvalid", True)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"sort_by": ["nmber"]}, "hot has no column nmber; it has: number, hash"),
        ({"unique": ["hsh"]}, "hot has no column hsh"),
        ({"tables": [{"input": "cold"}]}, "the job has no input 'cold'"),
        ({"finality_depth": 64}, "`finality_depth` needs `heads`"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    place: Place, config: dict[str, Any], reason: str
) -> None:
    _, message, retryable = failure(compact(place, hot(place, blocks(1)), config=config))
    assert reason in message
    assert not retryable


def test_all_of_a_dataset_is_no_range(place: Place) -> None:
    _, message, _ = failure(compact(place, hot(place, blocks(1)), scope=Scope()))
    assert "feed it from a range_aggregator" in message


def test_a_lone_input_triggers_and_is_compacted(place: Place) -> None:
    given = hot(place, blocks(2), blocks(1))
    result = place.run(COMPACT, inputs=(given,), scope=RANGE, trigger="hot")
    [written] = result.written
    assert place.rows_of(written) == blocks(1, 2)


def test_any_cut_of_hot_rows_compacts_to_the_rows_themselves(place: Place) -> None:
    chance = random.Random(20261118)  # noqa: S311
    for _ in range(5):
        logs = [
            {"block_number": block, "transaction_index": index // 2, "log_index": index}
            for block in range(chance.randint(1, 12))
            for index in range(chance.randint(0, 6))
        ]
        shuffled = chance.sample(logs, len(logs))
        cuts = sorted(chance.randint(0, len(logs)) for _ in range(chance.randint(0, 3)))
        bounds = [0, *cuts, len(logs)]
        objects = tuple(place.object(LOGS, shuffled[start:end]) for start, end in pairwise(bounds))
        given = SparkInput("hot", columns_of(LOGS), (SparkPart(objects, "block_number"),))
        first, last = sorted(chance.sample(range(14), 2))
        [written] = compact(place, given, scope=Scope.of_range(first, last)).written
        wanted = [each for each in logs if first <= each["block_number"] <= last]
        assert place.rows_of(written) == wanted


def test_keys_are_told_apart_as_python_tells_them(spark: SparkSession) -> None:
    """Whole numbers are told apart by bits of groups of 64: also below zero, beside text, and where
    there is no number."""
    chance = random.Random(20261119)  # noqa: S311
    values = [None, -130, -65, -64, -1, 0, 1, 62, 63, 64, 127, 128, 2**40, -(2**63), 2**63 - 1]
    found = set()
    for _ in range(12):
        unique = chance.choice([("number",), ("number", "hash"), ("hash",)])
        rows = [
            {"number": chance.choice(values), "hash": chance.choice(["a", "b", None])}
            for _ in range(chance.randint(0, 8))
        ]
        frame = spark.createDataFrame(
            [(row["number"], row["hash"]) for row in rows], "number bigint, hash string"
        )
        told = found_in(frame, Table("hot", "hot", "number", ("number",), unique))
        keys = Counter(tuple(row[each] for each in unique) for row in rows)
        unplaced = sum(row["number"] is None for row in rows)
        assert (told.rows, told.keys, told.without_cursor) == (len(rows), len(keys), unplaced)
        assert (told.duplicate is None) == (len(keys) == len(rows))
        found.add(told.duplicate is None)
    assert found == {True, False}
