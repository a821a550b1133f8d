"""Figures for groups of rows, complete for each bucket or told to be a range's part of it."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.columns import column_type_of, is_exact_text, numeric_size, typed
from emr_jobs.exact_sum import ROWS_DIGITS, carried, limb_sums, limbs_for, sort_key
from emr_jobs.operators.inputs import row_input
from emr_jobs.operators.rollup_config import Aggregate, Bucket, RollupConfig
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope

_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_FLOATS = ("real", "double precision")


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(RollupConfig)
    check_scope(config, task.scope)
    rows = rolled_up(io.read(row_input(task, config.input)), config)
    bucket, cursor = config.bucket, None
    if config.partial:
        first, last = task.range()
        rows = rows.select(
            F.lit(first).cast("bigint").alias("range_start"),
            F.lit(last).cast("bigint").alias("range_end"),
            "*",
        )
        cursor = "range_start"
    elif bucket is not None and bucket.by == "cursor":
        cursor = bucket.name
    io.write(0, rows, name=config.name, cursor_column=cursor)


def check_scope(config: RollupConfig, scope: Scope) -> None:
    """Refuse a task whose range would cut a bucket, or a group, in two."""
    bounds, bucket = scope.range, config.bucket
    if config.partial or bounds is None:
        return
    first, last = bounds
    if bucket is not None and bucket.by == "cursor":
        if first % bucket.size or (last + 1) % bucket.size:
            raise OperatorFailed(
                f"the range {first}-{last} cuts buckets of {bucket.size} in two; ask for ranges "
                f"that begin at a multiple of {bucket.size} and end before one, or write "
                "`partial: true`"
            )
        return
    raise OperatorFailed(
        f"the task is about {first}-{last}, and other ranges may hold rows of the same group; "
        "write `partial: true`, or a `bucket` by cursor"
    )


def rolled_up(rows: DataFrame, config: RollupConfig) -> DataFrame:
    """One row for each group, sorted, in the columns group, bucket, aggregates."""
    keys = [typed(F.col(each), each, _type(rows, each)) for each in config.group_by]
    if config.bucket is not None:
        keys.append(_bucket(rows, config.bucket))
    names = [*config.group_by, *([config.bucket.name] if config.bucket else [])]
    twice = sorted({*names} & {*config.aggregates})
    if twice or len(set(names)) != len(names):
        raise OperatorFailed(f"the result would have two columns {', '.join(twice or names)}")
    figures = {name: _Figure(rows, name, given) for name, given in config.aggregates.items()}
    partial = [each for figure in figures.values() for each in figure.partial()]
    # Keys tell groups apart. Sorted before figures are made of partial ones: to sort, Spark takes
    # its rows twice, the first time to see how they are spread.
    order = [*([config.bucket.name] if config.bucket else []), *config.group_by]
    grouped = rows.groupBy(*keys).agg(*partial)
    grouped = grouped.orderBy(*order) if order else grouped
    return grouped.select(
        *(typed(F.col(each), each, _type(grouped, each)) for each in names),
        *(figure.final() for figure in figures.values()),
    )


class _Figure:
    """What is aggregated for one column of the result, and what becomes of it after that."""

    def __init__(self, rows: DataFrame, name: str, given: Aggregate) -> None:
        self._name, self._given = name, given
        if given.column is None and given.function != "count":
            raise OperatorFailed(f"{name}: {given.function} needs a `column`")
        self._type = _type(rows, given.column) if given.column else ""
        self._exact = bool(self._type) and is_exact_text(self._type)
        size = numeric_size(self._type)
        self._digits, self._scale = size or (_DIGITS.get(self._type, 0), 0)
        if self._exact and not size and given.function in ("sum", "avg", "min", "max"):
            raise OperatorFailed(
                f"{name}: {given.column} is numeric without a size; give it one such as "
                "numeric(78,0) where it is made"
            )
        if given.function in ("sum", "avg") and not self._digits and self._type not in _FLOATS:
            raise OperatorFailed(f"{name}: {given.column} is {self._type} and has no sum")
        # Whether a sum passes 38 digits for as many rows as there can be.
        self._long = self._digits + ROWS_DIGITS > 38

    def partial(self) -> Iterator[Column]:
        name, function = self._name, self._given.function
        value = F.col(self._given.column) if self._given.column else F.lit(1)
        if function == "count":
            yield F.count(value).alias(name)
        elif function == "count_distinct":
            yield F.count_distinct(value).alias(name)
        elif function in ("min", "max"):
            order = F.min_by if function == "min" else F.max_by
            plain = F.min if function == "min" else F.max
            yield (
                order(value, sort_key(value, self._scale)) if self._exact else plain(value)
            ).alias(name)
        elif self._type in _FLOATS:
            yield (F.sum(value) if function == "sum" else F.avg(value)).cast("double").alias(name)
        elif self._long:
            for at, each in enumerate(limb_sums(value.cast("string"), self._digits, self._scale)):
                yield each.alias(f"__{name}_{at}")
            yield F.count(value).alias(f"__{name}_rows")
        else:
            yield F.sum(value.cast(S.DecimalType(38, self._scale))).alias(f"__{name}_0")
            yield F.count(value).alias(f"__{name}_rows")

    def final(self) -> Column:
        name, function = self._name, self._given.function
        if function in ("count", "count_distinct"):
            return typed(F.col(name), name, "bigint")
        if function in ("min", "max"):
            return typed(F.col(name), name, self._type)
        if self._type in _FLOATS:
            return typed(F.col(name), name, "double precision")
        rows = F.col(f"__{name}_rows")
        total = self._total(name, rows)
        if function == "avg":
            return typed(total.cast("double") / rows, name, "double precision")
        digits = self._digits + ROWS_DIGITS if self._long else 38
        kind = f"numeric({digits},{self._scale})" if self._scale else f"numeric({digits})"
        return typed(total, name, kind)

    def _total(self, name: str, rows: Column) -> Column:
        if not self._long:
            return F.col(f"__{name}_0")
        count = limbs_for(self._digits)
        sums = F.array(*(F.col(f"__{name}_{at}") for at in range(count)))
        return F.when(rows > 0, carried(sums, self._scale))


def _bucket(rows: DataFrame, bucket: Bucket) -> Column:
    kind, value = _type(rows, bucket.column), F.col(bucket.column)
    if bucket.by == "time":
        if kind != "timestamptz":
            raise OperatorFailed(f"{bucket.column} is {kind}; a bucket by time cuts a timestamptz")
        seconds = F.unix_seconds(value)
        return F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(bucket.size))).alias(bucket.name)
    if kind not in _DIGITS:
        raise OperatorFailed(f"{bucket.column} is {kind}; a bucket cuts a whole number")
    return (value - F.pmod(value, F.lit(bucket.size))).cast("bigint").alias(bucket.name)


def _type(rows: DataFrame, name: str) -> str:
    if name not in rows.columns:
        raise OperatorFailed(
            f"the rows have no column {name}; they have: {', '.join(rows.columns)}"
        )
    return column_type_of(rows.schema[name])
