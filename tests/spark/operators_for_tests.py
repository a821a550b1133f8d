"""PySpark operators that only tests use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import functions as F

from emr_jobs.configs import setting
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope


@dataclass(frozen=True)
class CopyConfig:
    sort_by: tuple[str, ...] = setting((), description="The order of the rows.")
    one_file: bool = setting(False, description="One file for all.")
    cursor_column: str | None = setting(None, description="The column with the cursors.")
    held_by: str | None = setting(None, description="A file; nothing is written while it is there.")


def copy(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(CopyConfig)
    while config.held_by is not None and Path(config.held_by).exists():
        time.sleep(0.02)
    io.write(
        0,
        io.read(task.inputs[0].alias),
        sort_by=config.sort_by,
        one_file=config.one_file,
        cursor_column=config.cursor_column,
    )


def write_twice(task: SparkTask, io: SparkIO) -> None:
    for _ in range(2):
        io.write(0, io.read("rows"))


def write_two_scopes(task: SparkTask, io: SparkIO) -> None:
    rows = io.read("rows")
    for first, last in ((0, 4), (5, 9)):
        inside = rows.where(F.col("number").between(first, last))
        io.write(0, inside, scope=Scope.of_range(first, last), name="blocks", sort_by=["number"])


def badly_named(task: SparkTask, io: SparkIO) -> None:
    io.write(0, io.read("rows"), name="../../elsewhere")


def announce(task: SparkTask, io: SparkIO) -> None:
    io.emit(0, Scope.of_range(0, 9))
    io.invalidate("rows", Scope.of_range(3, 4), "two hashes for one block")


def overflow(task: SparkTask, io: SparkIO) -> None:
    io.write(0, io.read("rows").select((F.col("number") * F.lit(2**62)).alias("number")))


def unknown_column(task: SparkTask, io: SparkIO) -> None:
    io.write(0, io.read("rows").select("nmber"))


def give_up(task: SparkTask, io: SparkIO) -> None:
    raise OperatorFailed("the label service is away", retryable=True, code="LabelsAway")


def leave(task: SparkTask, io: SparkIO) -> None:
    raise SystemExit(0)


def leak(task: SparkTask, io: SparkIO) -> None:
    raise ValueError("no https://user:hunter2@example.org/x?token=abc AKIAIOSFODNN7EXAMPLE")
