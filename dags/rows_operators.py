"""Operators with rows: one makes them, one reads them at its pin and writes what it counted."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.operators.api import OperatorFailed, Result, Rows, TaskContext
from trace_core.operators.configs import OperatorConfig


class ReadingsConfig(OperatorConfig):
    devices: int = Field(default=3, ge=1, description="How many devices take turns.")


class Readings:
    """One reading for each number of the range that was asked for: Parquet, named by its range."""

    def run(self, task: TaskContext[ReadingsConfig]) -> Result:
        start, end = _range(task)
        numbers = range(start, end + 1)
        table = pa.table(
            {
                "number": pa.array(numbers, pa.int64()),
                "device": [f"device-{number % task.config.devices}" for number in numbers],
                "value": pa.array([number % 7 for number in numbers], pa.int64()),
            }
        )
        task.log.info("%s readings, %s to %s", table.num_rows, start, end)
        return Result(outputs=[Rows(0, task.trigger.scope, table, name="readings")])  # type: ignore[union-attr]


class NoConfig(OperatorConfig):
    """Nothing to set."""


class Totals:
    """How many readings each device has in the range, and their sum: a table in Postgres."""

    def run(self, task: TaskContext[NoConfig]) -> Result:
        start, _ = _range(task)
        # Of the input that triggered the task, the rows of the trigger's range, at this pin.
        readings = task.read("readings", columns=["device", "value"])
        totals = readings.group_by("device").aggregate([("value", "count"), ("value", "sum")])
        table = pa.table(
            {
                "first_number": pa.repeat(pa.scalar(start, pa.int64()), totals.num_rows),
                "device": totals["device"],
                "readings": totals["value_count"],
                "total": totals["value_sum"],
            }
        )
        return Result(outputs=[Rows(0, task.trigger.scope, table)])  # type: ignore[union-attr]


def _range(task: TaskContext[OperatorConfig]) -> tuple[int, int]:
    bounds = task.trigger.scope.range if task.trigger else None
    if bounds is None:
        raise OperatorFailed("needs an event with a range")
    return bounds


_REACTIVE = frozenset({Activation.REACTIVE})
_ANYWHERE = frozenset({Runtime.WORKER, Runtime.LAMBDA})

OPERATORS = [
    OperatorSpec(
        name="rows_readings",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_ANYWHERE,
        config=ReadingsConfig,
        description="Makes one reading for each number of a range.",
        implementation="dags.rows_operators:Readings",
        storage=Storage.S3,
    ),
    OperatorSpec(
        name="rows_totals",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_ANYWHERE,
        config=NoConfig,
        description="Counts and adds up the readings of each device.",
        implementation="dags.rows_operators:Totals",
        storage=Storage.POSTGRES,
        columns=(
            (
                Column("first_number", "bigint"),
                Column("device", "text"),
                Column("readings", "bigint"),
                Column("total", "bigint"),
            ),
        ),
    ),
]
