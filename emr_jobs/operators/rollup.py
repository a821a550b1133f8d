"""Figures for groups of rows, complete for each bucket or told to be a range's part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.columns import column_type_of, is_exact_text, numeric_size, typed
from emr_jobs.exact_sum import (
    ROWS_DIGITS,
    carried,
    limb,
    limbs_for,
    long,
    short,
    signed_digits,
    sort_key,
    with_point,
)
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
    if config.partial or scope == Scope():
        return
    if bounds is None:
        raise OperatorFailed(
            f"the task is about partition {scope.partition_key}, and other partitions may hold "
            "rows of the same group; feed it ranges, or all of the dataset"
        )
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
    figures = [_Figure(rows, name, given) for name, given in config.aggregates.items()]
    grouped = _grouped(_with_numbers(rows, keys, figures), names, figures)
    # Keys tell groups apart. Sorted before figures are made of partial ones: to sort, Spark takes
    # its rows twice, the first time to see how they are spread.
    order = [*([config.bucket.name] if config.bucket else []), *config.group_by]
    grouped = grouped.orderBy(*order) if order else grouped
    return grouped.select(
        *(typed(F.col(each), each, _type(grouped, each)) for each in names),
        *(figure.final() for figure in figures),
    )


def _with_numbers(rows: DataFrame, keys: Sequence[Column], figures: Sequence[_Figure]) -> DataFrame:
    """Groups and values, and beside each exact number what it is grouped by: `short` or `long`."""
    values = {each.column: each for each in figures if each.column}
    numbers = list({each.column: each for each in figures if each.is_cut}.values())
    frame = rows.select(
        *(key.alias(f"__key_{at}") for at, key in enumerate(keys)),
        *(F.col(name).alias(f"__value_{name}") for name in values),
        *(each.signed().alias(f"__signed_{each.column}") for each in numbers),
    )
    return frame.select(
        "*",
        *(
            short(F.col(f"__signed_{each.column}")).alias(f"__short_{each.column}")
            for each in numbers
        ),
        *(
            long(F.col(f"__signed_{each.column}")).alias(f"__long_{each.column}")
            for each in numbers
        ),
    )


def _grouped(frame: DataFrame, names: Sequence[str], figures: Sequence[_Figure]) -> DataFrame:
    """Partial figures of each group.

    Long numbers are first told apart like groups. What costs much is done for each of them then,
    and not for each row: to cut them, and to compare them, for which Spark sorts its rows.
    """
    keys = [F.col(f"__key_{at}").alias(name) for at, name in enumerate(names)]
    parts = [each for figure in figures for each in figure.partial()]
    longs = [each for each in frame.columns if each.startswith("__long_")]
    if longs and not any(each.is_distinct for each in figures):
        frame = frame.groupBy(*keys, *longs).agg(*(each.first for each in parts))
        keys, parts = [F.col(each) for each in names], [each.again() for each in parts]
    return frame.groupBy(*keys).agg(
        *(each.first for each in parts),
        *(each for figure in figures for each in figure.of_longs(frame.columns)),
    )


@dataclass(frozen=True)
class _Part:
    """A figure of rows, and of such figures."""

    name: str
    of_rows: Column
    of_parts: Callable[[Column], Column]

    @property
    def first(self) -> Column:
        return self.of_rows.alias(self.name)

    def again(self) -> _Part:
        return _Part(self.name, self.of_parts(F.col(self.name)), self.of_parts)


class _Figure:
    """What is aggregated for one column of the result, and what becomes of it after that."""

    def __init__(self, rows: DataFrame, name: str, given: Aggregate) -> None:
        self._name, self._function, self.column = name, given.function, given.column
        if given.column is None and given.function != "count":
            raise OperatorFailed(f"{name}: {given.function} needs a `column`")
        self._type = _type(rows, given.column) if given.column else ""
        exact = bool(self._type) and is_exact_text(self._type)
        size = numeric_size(self._type)
        self._digits, self._scale = size or (_DIGITS.get(self._type, 0), 0)
        adds, compares = given.function in ("sum", "avg"), given.function in ("min", "max")
        if exact and not size and (adds or compares):
            raise OperatorFailed(
                f"{name}: {given.column} is numeric without a size; give it one such as "
                "numeric(78,0) where it is made"
            )
        if adds and not self._digits and self._type not in _FLOATS:
            raise OperatorFailed(f"{name}: {given.column} is {self._type} and has no sum")
        # Whether a sum passes 38 digits for as many rows as there can be.
        self._long = self._digits + ROWS_DIGITS > 38
        self.is_distinct = given.function == "count_distinct"
        self.is_extreme = exact and compares
        self.is_cut = self.is_extreme or (adds and self._long)
        """Whether its numbers are taken as short and long ones."""

    def signed(self) -> Column:
        return signed_digits(F.col(self.column or "").cast("string"), self._scale)

    def partial(self) -> Iterator[_Part]:
        name, value = self._name, F.col(f"__value_{self.column}") if self.column else F.lit(1)
        if self._function == "count":
            yield _Part(name, F.count(value), _added_up)
        elif self.is_distinct:
            yield _Part(name, F.count_distinct(value), _added_up)
        elif self._function in ("min", "max"):
            which = F.min if self._function == "min" else F.max
            given = F.col(f"__short_{self.column}") if self.is_extreme else value
            yield _Part(name, which(given), which)
        else:
            yield _Part(f"__{name}_0", F.sum(self._added(value)), F.sum)
            yield _Part(f"__{name}_rows", F.count(value), _added_up)

    def _added(self, value: Column) -> Column:
        if self._type in _FLOATS:
            return value.cast("double")
        if self._long:
            return F.col(f"__short_{self.column}")
        return value.cast(S.DecimalType(38, self._scale))

    def of_longs(self, known: Sequence[str]) -> Iterator[Column]:
        """What long numbers add: of rows, or of partial figures, which know of how many rows."""
        name, signed = self._name, F.col(f"__long_{self.column}")
        if self.is_extreme:
            order = F.min_by if self._function == "min" else F.max_by
            yield order(signed, sort_key(signed)).alias(f"__{name}_long")
        elif self.is_cut:
            rows = F.col(f"__{name}_rows") if f"__{name}_rows" in known else F.lit(1)
            for at in range(limbs_for(self._digits)):
                yield F.sum(limb(signed, at) * rows).alias(f"__{name}_limb_{at}")

    def final(self) -> Column:
        name = self._name
        if self._function in ("count", "count_distinct"):
            return typed(F.col(name), name, "bigint")
        if self._function in ("min", "max"):
            return typed(self._extreme() if self.is_extreme else F.col(name), name, self._type)
        rows, total = F.col(f"__{name}_rows"), self._total()
        if self._function == "avg":
            return typed(total.cast("double") / rows, name, "double precision")
        if self._type in _FLOATS:
            return typed(total, name, "double precision")
        digits = self._digits + ROWS_DIGITS if self._long else 38
        kind = f"numeric({digits},{self._scale})" if self._scale else f"numeric({digits})"
        return typed(total, name, kind)

    def _total(self) -> Column:
        short_ones = F.col(f"__{self._name}_0")
        if not self.is_cut:
            return short_ones
        limbs = [F.col(f"__{self._name}_limb_{at}") for at in range(limbs_for(self._digits))]
        return with_point(carried(short_ones, limbs), self._scale)

    def _extreme(self) -> Column:
        """Long numbers are beyond all short ones, on the side that their sign says."""
        of_long = F.col(f"__{self._name}_long")
        of_short = F.col(self._name).cast("string")
        beyond = of_long.startswith("-") == F.lit(self._function == "min")
        wins = of_short.isNull() | F.coalesce(beyond, F.lit(False))
        return with_point(F.when(wins, of_long).otherwise(of_short), self._scale)


def _added_up(counts: Column) -> Column:
    return F.coalesce(F.sum(counts), F.lit(0))


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
