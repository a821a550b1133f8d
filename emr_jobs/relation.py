"""One input as a frame: the objects of its parts, cut down to what the task may read of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from emr_jobs.columns import spark_schema, typed_frame
from emr_jobs.files import Files, literally
from emr_jobs.filter_spark import condition
from emr_jobs.task import OperatorFailed
from trace_core.spark.wire import Bounds, SparkColumn, SparkInput, SparkObject, SparkPart

# No column of a dataset can have such a name.
_ORDINAL, _POSITION, _FILE, _WANTED, _PLACE, _TURN = (
    "#ordinal",
    "#position",
    "#file",
    "#wanted",
    "#place",
    "#turn",
)


def relation(spark: SparkSession, files: Files, given: SparkInput) -> DataFrame:
    if not given.columns:
        if any(part.objects for part in given.parts):
            raise OperatorFailed(f"input {given.alias} has objects but no columns")
        raise OperatorFailed(
            f"input {given.alias} has no columns yet: nothing was ever written to it; "
            "declare them in the schema of its publication",
            code="InputUnknown",
        )
    scans: list[DataFrame] = []
    for part in given.parts:
        if part.first_of_key:
            scans += _appended(spark, files, part, given.columns)
        else:
            scans += _placed(spark, part, given.columns)
    if not scans:
        scans = [spark.createDataFrame([], spark_schema(given.columns))]
    rows = functools.reduce(DataFrame.unionByName, scans)
    if given.where is not None:
        rows = rows.where(condition(given.where, {each.name: each.type for each in given.columns}))
    return typed_frame(rows, given.columns)


def _placed(
    spark: SparkSession, part: SparkPart, columns: Sequence[SparkColumn]
) -> list[DataFrame]:
    """One scan for all objects that are cut down in the same way."""
    groups: dict[tuple[Bounds, ...] | None, list[str]] = {}
    for each in part.objects:
        if each.rows != 0 and each.keep != ():
            groups.setdefault(each.keep, []).append(each.uri)
    scans = []
    for keep, uris in groups.items():
        rows = _scan(spark, uris, columns)
        if keep is not None:
            rows = rows.where(_inside(part, keep))
        scans.append(rows.select(*(each.name for each in columns)))
    return scans


def _appended(
    spark: SparkSession, files: Files, part: SparkPart, columns: Sequence[SparkColumn]
) -> list[DataFrame]:
    """Which row of a key came first can only be said over all objects; then they are cut down."""
    objects = [each for each in part.objects if each.rows != 0]
    ordered = [each for _, each in sorted(enumerate(objects), key=lambda at: (at[1].number, at[0]))]
    if not ordered:
        return []
    names = [each.name for each in columns]
    rows = _scan(spark, [each.uri for each in ordered], columns).select(
        *names,
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.row_index").alias(_POSITION),
    )
    places = spark.createDataFrame(
        [(files.spelled(each.uri), at) for at, each in enumerate(ordered)],
        f"`{_PLACE}` string, `{_ORDINAL}` int",
    )
    lost = F.raise_error(F.lit("a scanned file is none of the input's objects")).cast("int")
    placed = rows.join(
        F.broadcast(places), on=F.col(_FILE) == F.col(_PLACE), how="left"
    ).withColumn(_ORDINAL, F.coalesce(F.col(_ORDINAL), lost))
    if any(each.keep is not None for each in ordered):
        placed = placed.withColumn(_WANTED, _wanted(part, ordered))
    else:
        placed = placed.withColumn(_WANTED, F.lit(True))
    order = Window.partitionBy(*part.first_of_key).orderBy(_ORDINAL, _POSITION)
    first = placed.withColumn(_TURN, F.row_number().over(order)).where(F.col(_TURN) == 1)
    return [first.where(F.col(_WANTED)).select(*names)]


def _wanted(part: SparkPart, ordered: Sequence[SparkObject]) -> Column:
    groups: dict[tuple[Bounds, ...], list[int]] = {}
    for ordinal, each in enumerate(ordered):
        if each.keep is not None:
            groups.setdefault(each.keep, []).append(ordinal)
    found = F.lit(True)
    for keep, ordinals in groups.items():
        inside = _inside(part, keep) if keep else F.lit(False)
        found = F.when(F.col(_ORDINAL).isin(*ordinals), inside).otherwise(found)
    return found


def _scan(spark: SparkSession, uris: Iterable[str], columns: Sequence[SparkColumn]) -> DataFrame:
    # With a schema of ours no footer decides: an object of before a column was added gives NULL.
    return spark.read.schema(spark_schema(columns)).parquet(*(literally(each) for each in uris))


def _inside(part: SparkPart, keep: Sequence[Bounds]) -> Column:
    if part.cursor_column is None:
        raise OperatorFailed(
            "an input is cut down by cursors and has no cursor column", code="PayloadInvalid"
        )
    cursor = F.col(part.cursor_column)
    ranges = [(cursor >= first) & (cursor <= last) for first, last in keep]
    return functools.reduce(Column.__or__, ranges)
