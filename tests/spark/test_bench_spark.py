"""`make bench-spark` at a tiny size, so that it does not rot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.report import Report
from bench.spark.data import FILE_ROWS, Sample, sample
from bench.spark.runs import Runs, check_same
from bench.spark.sections import OPERATORS, in_turns, rows_of

ROWS = 2_000


@pytest.mark.parametrize("operator", ["parquet_compact", "sql_transform"])
def test_an_operator_is_measured_beside_others_that_give_the_same_rows(
    spark: SparkSession, tmp_path: Path, operator: str
) -> None:
    runs, case, given = Runs(spark, tmp_path / "runs"), OPERATORS[operator], sample(tmp_path, ROWS)

    check_same(runs, case, given, tmp_path)
    found = in_turns(runs, runs.ways(case, given), 1)

    report = Report({}, {}, rows=list(rows_of(case, ROWS, found)))
    ours, bare, *others = report.rows
    assert ours.ratio == pytest.approx(bare.figure / ours.figure)
    assert [each.name for each in others][-1] == "2,000 rows, DuckDB"
    assert all(each.figure > 0 for each in report.rows)
    assert not [*(tmp_path / "runs").iterdir()]


def test_what_gives_other_rows_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    runs, case = Runs(spark, tmp_path / "runs"), OPERATORS["parquet_compact"]
    given = sample(tmp_path, ROWS)
    less = dataclasses.replace(
        case, bare=lambda frames, blocks: case.bare(frames, blocks).where("block_number > 0")
    )

    with pytest.raises(RuntimeError, match="100 rows differ"):
        check_same(runs, less, given, tmp_path)


def test_larger_samples_begin_with_the_files_of_smaller_ones(tmp_path: Path) -> None:
    four = Sample(4 * FILE_ROWS, tmp_path)

    assert four.paths("logs")[0] == Sample(FILE_ROWS, tmp_path).paths("logs")[0]
    assert (len(four.paths("logs")), len(four.paths("labels"))) == (4, 1)
    with pytest.raises(ValueError, match="full files"):
        Sample(FILE_ROWS + 100, tmp_path).make()
