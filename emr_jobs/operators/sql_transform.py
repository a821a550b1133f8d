"""One SELECT of a user over the task's inputs, behind two walls: the gate judges the statement, and
the session in which it runs has nothing but the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from emr_jobs.columns import columns_of, conformed
from emr_jobs.configs import COLUMN_PATTERN
from emr_jobs.operators.sql_transform_config import SqlTransformConfig
from emr_jobs.session import prepare
from emr_jobs.spark_io import SparkIO
from emr_jobs.sql_clock import check_constant_times
from emr_jobs.sql_exact import check_exact_numbers
from emr_jobs.sql_gate import judge
from emr_jobs.sql_nodes import elements
from emr_jobs.sql_text import SqlRefused, unquoted
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkColumn

_SESSION = {
    # `${env:…}` in a statement would be the runner's environment.
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
_SCANS = ("LogicalRelation", "LogicalRDD", "LocalRelation", "OneRowRelation", "Range")


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(SqlTransformConfig)
    session = session_of_its_own(io.spark)
    try:
        judged = judge(session, config.sql, [each.alias for each in task.inputs])
        frames = {alias: io.read(alias, session=session) for alias in sorted(judged.reads)}
        rows = select(session, config.sql, frames)
        check_exact_numbers(rows, judged.casts)
        check_constant_times(rows)
    except SqlRefused as refused:
        raise OperatorFailed(str(refused), code="SqlRefused") from refused
    rows = typed_as(rows, config.types)
    _check_names(rows)
    output = task.output(0)
    missing = sorted(set(output.unique_key) - set(rows.columns))
    if missing:
        raise OperatorFailed(
            f"the result has no column {', '.join(missing)}, which the unique key names"
        )
    if config.cursor_column is not None:
        rows = inside(rows, config.cursor_column, task.scope)
    io.write(0, rows, name=config.name, sort_by=config.sort_by, cursor_column=config.cursor_column)


def session_of_its_own(spark: SparkSession) -> SparkSession:
    """Without the views, variables and functions of other tasks in the same warm session."""
    session = prepare(spark.newSession())
    for key, value in _SESSION.items():
        session.conf.set(key, value)
    return session


def select(session: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The result of a statement that was judged, over frames of this session."""
    for alias, frame in frames.items():
        frame.createTempView(f"`{alias}`")
    rows = session.sql(sql)
    _check_scans(rows, frames)
    return rows


def typed_as(rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """The result with the types that were given for some of its columns."""
    if not types:
        return rows
    unknown = sorted(set(types) - set(rows.columns))
    if unknown:
        raise OperatorFailed(f"`types` names {', '.join(unknown)}, which the result does not have")
    known = {
        each.name: "" if each.name in types else columns_of(rows.select(each.name))[0].type
        for each in rows.schema.fields
    }
    return conformed(
        rows, [SparkColumn(name, types.get(name) or told) for name, told in known.items()]
    )


def inside(rows: DataFrame, column: str, scope: Scope) -> DataFrame:
    """Fails for a row outside of the task's range: it would outlive the rewrite of its range."""
    if scope.range is None or column not in rows.columns:
        return rows
    first, last = scope.range
    told = f"a row's {column} lies outside of {first}-{last}, the range of the task"
    cursor = F.col(column)
    checked = F.when(cursor.between(first, last), cursor).otherwise(
        F.raise_error(F.lit(told)).cast(rows.schema[column].dataType)
    )
    metadata = rows.schema[column].metadata
    return rows.select(
        *(
            checked.alias(column, metadata=metadata) if each == column else F.col(each)
            for each in rows.columns
        )
    )


def _check_names(rows: DataFrame) -> None:
    for name in rows.columns:
        if not re.fullmatch(COLUMN_PATTERN.removeprefix("^").removesuffix("$"), name):
            raise OperatorFailed(
                f"the result has a column {unquoted(name)[:60]!r}; give it a name of a-z, 0-9 and "
                "`_` with AS"
            )
    twice = sorted({each for each in rows.columns if rows.columns.count(each) > 1})
    if twice:
        raise OperatorFailed(
            f"the result has two columns {', '.join(twice)}; give one another name with AS"
        )


def _check_scans(rows: DataFrame, frames: Mapping[str, DataFrame]) -> None:
    """The second wall: all that is scanned are the inputs' own objects."""
    known = [
        leaf.relation() for frame in frames.values() for leaf in _leaves(frame) if _is_scan(leaf)
    ]
    for leaf in _leaves(rows):
        name = leaf.getClass().getSimpleName().removesuffix("$")
        scanned = _is_scan(leaf)
        if (scanned and leaf.relation() not in known) or not (scanned or name in _SCANS):
            if name == "CTERelationRef":
                continue
            raise OperatorFailed(
                "the statement reads something that is no input of this job", code="SqlRefused"
            )


def _is_scan(leaf: Any) -> bool:
    return bool(leaf.getClass().getSimpleName() == "LogicalRelation")


def _leaves(frame: DataFrame) -> list[Any]:
    plan = frame._jdf.queryExecution().analyzed()
    plans, found = [plan], []
    while plans:
        each = plans.pop()
        below = list(elements(each.children()))
        plans += [*below, *elements(each.subqueries())]
        if not below:
            found.append(each)
    return found
