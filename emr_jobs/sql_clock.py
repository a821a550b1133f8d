"""Constants that hold a clock: `CAST('now' AS timestamp)`, and `'12:00'`, of the day of the run.

Spark reads a text as a time wherever it takes the place of one, so it is judged on the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from emr_jobs.sql_expressions import Expression, expressions, plan_nodes
from emr_jobs.sql_gate import TIMES
from emr_jobs.sql_nodes import elements
from emr_jobs.sql_text import TIME_TEXT, SqlRefused

_VARYING = ("AttributeReference", "OuterReference", "NamedLambdaVariable", "ScalarSubquery")


def check_constant_times(rows: DataFrame) -> None:
    """Raise `SqlRefused` for a constant text that becomes a time and is not written as one."""
    jvm: Any = rows.sparkSession.sparkContext._jvm
    written = jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions
    plan = rows._jdf.queryExecution().analyzed()
    plans = [plan, *(each for node in plan_nodes(plan) for each in elements(node.subqueries()))]
    for each in plans:
        # `to_timestamp` and others are written out first.
        replaced = written.apply(each)
        # The plan as text is one call; to look at each of its parts is thousands.
        if any(map(_becomes_time, expressions(json.loads(replaced.toJSON())))):
            for cast in _casts(replaced):
                _check(cast.child())


def _becomes_time(expression: Expression) -> bool:
    is_cast = expression.name == "Cast" and str(expression.fields.get("dataType")) in TIMES
    if is_cast and not any(each.name in _VARYING for each in expression.below()):
        return True
    return any(map(_becomes_time, expression.children))


def _casts(plan: Any) -> Iterator[Any]:
    for node in plan_nodes(plan):
        pending = list(elements(node.expressions()))
        while pending:
            each = pending.pop()
            pending += elements(each.children())
            if (
                each.getClass().getSimpleName() == "Cast"
                and each.dataType().typeName() in TIMES
                and each.child().foldable()
                and each.child().dataType().typeName() == "string"
            ):
                yield each


def _check(text: Any) -> None:
    shown = str(text.sql())
    if text.getClass().getSimpleName() == "Literal":
        value = text.value()
        if value is None or TIME_TEXT.fullmatch(str(value)):
            return
    raise SqlRefused(
        f"{shown[:60]} as a time",
        "is not written as a date, and may be another one in each run",
        None,
        "write it as '2026-01-31' or '2026-01-31 12:00:00', or take the time from a column",
    )
