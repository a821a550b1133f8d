"""Rows with columns of other inputs beside them; a key that is there twice is never passed over."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.columns import TYPE_KEY
from emr_jobs.operators.enrich_config import EnrichConfig, Lookup
from emr_jobs.operators.inputs import row_input, row_inputs
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask

_WHOLE = (S.LongType, S.IntegerType, S.ShortType)
_PICKED = "__picked"


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(EnrichConfig)
    lookups = {each.input for each in config.lookups}
    alias = config.input
    if alias is None:
        found = row_inputs(task, but=lookups)
        alias = found[0] if len(found) == 1 else None
    rows = io.read(row_input(task, alias))
    for each in config.lookups:
        rows = enriched(rows, io.read(each.input), each)
    io.write(0, rows, name=config.name, sort_by=config.sort_by, cursor_column=config.cursor_column)


def enriched(rows: DataFrame, other: DataFrame, lookup: Lookup) -> DataFrame:
    """The rows with what is taken of `other`, under its prefix."""
    taken = _taken(rows, other, lookup)
    keys = [f"__key{at}" for at in range(len(lookup.keys))]
    right = other.select(
        *(
            _key(other, name, lookup).alias(key)
            for key, name in zip(keys, lookup.keys.values(), strict=True)
        ),
        *(F.col(each) for each in taken),
    ).where(_all(F.col(key).isNotNull() for key in keys))
    if lookup.many != "all":
        right = _one_for_each(right, keys, taken, lookup)
    left = rows.select(
        "*",
        *(
            _key(rows, name, lookup).alias(f"__of{key}")
            for key, name in zip(keys, lookup.keys, strict=True)
        ),
    )
    matched = _all(F.col(f"__of{key}") == F.col(key) for key in keys)
    # What is taken gets its names before the join, where each is still told apart from the rows'.
    renamed = right.select(*keys, *(F.col(each).alias(f"__new_{each}") for each in taken))
    return left.join(renamed, on=matched, how=lookup.how).select(
        *(F.col(each) for each in rows.columns),
        *(
            F.col(f"__new_{each}").alias(lookup.prefix + each, metadata=other.schema[each].metadata)
            for each in taken
        ),
    )


def _one_for_each(right: DataFrame, keys: list[str], taken: list[str], lookup: Lookup) -> DataFrame:
    """One row for each key; rows that say the same are one."""
    values = F.struct(*taken)
    lowest = F.min(values)
    if lookup.many == "fail":
        told = F.concat(
            F.lit(f"input {lookup.input} has several rows for "),
            F.concat_ws(", ", *(F.col(key).cast("string") for key in keys)),
            F.lit("; write `many: lowest` or `many: all`"),
        )
        lowest = F.when(lowest.eqNullSafe(F.max(values)), lowest).otherwise(
            F.raise_error(told).cast(right.select(values.alias("v")).schema["v"].dataType)
        )
    picked = right.groupBy(*keys).agg(lowest.alias(_PICKED))
    return picked.select(*keys, *(F.col(f"{_PICKED}.{each}").alias(each) for each in taken))


def _taken(rows: DataFrame, other: DataFrame, lookup: Lookup) -> list[str]:
    for name, frame, whose in (
        *((each, rows, "the rows") for each in lookup.keys),
        *((each, other, f"input {lookup.input}") for each in lookup.keys.values()),
        *((each, other, f"input {lookup.input}") for each in lookup.columns),
    ):
        if name not in frame.columns:
            raise OperatorFailed(
                f"{whose} have no column {name}; they have: {', '.join(frame.columns)}"
            )
    for one, two in lookup.keys.items():
        left, right = rows.schema[one], other.schema[two]
        same = left.dataType == right.dataType or (
            isinstance(left.dataType, _WHOLE) and isinstance(right.dataType, _WHOLE)
        )
        if not same:
            raise OperatorFailed(
                f"{one} is {left.dataType.simpleString()} and {lookup.input}.{two} is "
                f"{right.dataType.simpleString()}: they are never equal; cast one before"
            )
        if lookup.match == "address" and (
            not isinstance(left.dataType, S.StringType)
            or (TYPE_KEY in (left.metadata or {}) and left.metadata[TYPE_KEY] != "text")
        ):
            raise OperatorFailed(f"{one} is no text: `match: address` compares text")
    taken = list(lookup.columns) or [
        each for each in other.columns if each not in lookup.keys.values()
    ]
    if not taken:
        raise OperatorFailed(f"nothing is taken of input {lookup.input}; name its `columns`")
    clash = sorted(set(rows.columns) & {lookup.prefix + each for each in taken})
    if clash:
        raise OperatorFailed(
            f"the rows have a column {', '.join(clash)} already; give input {lookup.input} a "
            "`prefix`, or name the `columns` that are taken"
        )
    return taken


def _key(frame: DataFrame, name: str, lookup: Lookup) -> Column:
    return F.lower(F.col(name)) if lookup.match == "address" else frame[name]


def _all(conditions: Iterable[Column]) -> Column:
    return functools.reduce(Column.__and__, conditions)
