"""Each operator, and the same result as somebody would write it who has PySpark and no platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from bench.spark.data import TRANSFER
from emr_jobs.columns import typed_frame
from emr_jobs.operators.decode_logs import decoded_logs
from emr_jobs.operators.decode_logs_config import DecodeLogsConfig
from emr_jobs.operators.rollup import rolled_up
from emr_jobs.operators.rollup_config import Aggregate, Bucket, RollupConfig
from trace_core.spark.wire import SparkColumn

Frames = Mapping[str, DataFrame]
Build = Callable[[Frames, int], DataFrame]
"""Of the inputs and the number of blocks."""


@dataclass(frozen=True)
class Case:
    operator: str
    inputs: tuple[str, ...]
    config: Callable[[int], Mapping[str, Any]]
    """By the number of blocks."""
    bare: Build
    duckdb: Callable[[int], str]
    function: Build | None = None
    """The operator's own pure function where it is not what one would write by hand."""
    duckdb_same: bool = True
    """Whether DuckDB can give the same rows."""

    @property
    def implementation(self) -> str:
        return f"emr_jobs.operators.{self.operator}:run"


_SELECT = f"""
SELECT block_number, log_index, address AS token, concat('0x', substring(topic1, 27)) AS sender,
       concat('0x', substring(topic2, 27)) AS receiver, upper(data) AS amount_hex
  FROM logs WHERE topic0 = '{TRANSFER}' AND topic3 IS NULL"""


def _sql(frames: Frames, blocks: int) -> DataFrame:
    frames["logs"].createOrReplaceTempView("logs")
    return frames["logs"].sparkSession.sql(_SELECT)


def _labelled(frames: Frames, blocks: int) -> DataFrame:
    return frames["logs"].join(frames["labels"], on="address", how="left")


def bucket_size(blocks: int) -> int:
    return 1000 if blocks % 1000 == 0 else 10


def _rollup_config(blocks: int) -> dict[str, Any]:
    return {
        "group_by": ["token"],
        "bucket": {"by": "cursor", "column": "block_number", "size": bucket_size(blocks)},
        "aggregates": {
            "transfers": {"function": "count"},
            "volume": {"function": "sum", "column": "amount"},
            "largest": {"function": "max", "column": "amount"},
        },
    }


def _rollup(frames: Frames, blocks: int) -> DataFrame:
    """Right as long as sums have at most 38 digits, as those of this data."""
    size, amount = bucket_size(blocks), F.col("amount").cast("decimal(38,0)")
    number = F.col("block_number")
    return (
        frames["transfers"]
        .groupBy("token", (number - number % size).alias("bucket"))
        .agg(
            F.count(F.lit(1)).alias("transfers"),
            F.sum(amount).cast("string").alias("volume"),
            F.max(amount).cast("string").alias("largest"),
        )
        .orderBy("bucket", "token")
    )


def _rollup_function(frames: Frames, blocks: int) -> DataFrame:
    size = bucket_size(blocks)
    config = RollupConfig(
        aggregates={
            "transfers": Aggregate("count"),
            "volume": Aggregate("sum", "amount"),
            "largest": Aggregate("max", "amount"),
        },
        group_by=("token",),
        bucket=Bucket("cursor", "block_number", size),
    )
    columns = [SparkColumn(each, "") for each in frames["transfers"].columns]
    types = {"block_number": "bigint", "log_index": "integer", "token": "text"}
    known = [SparkColumn(each.name, types.get(each.name, "numeric(78,0)")) for each in columns]
    return rolled_up(typed_frame(frames["transfers"], known), config)


def _compacted(frames: Frames, blocks: int) -> DataFrame:
    return (
        frames["logs"]
        .where(F.col("block_number").between(0, blocks - 1))
        .coalesce(1)
        .sortWithinPartitions("block_number", "transaction_index", "log_index")
    )


_KEPT = ("block_number", "block_hash", "transaction_hash", "transaction_index", "log_index")
_DECODE = {"layout": "columns", "events": ("erc20.Transfer",)}


def _decimal(digits: str | None) -> str | None:
    return None if digits is None else str(int(digits, 16))


def _decoded(frames: Frames, blocks: int) -> DataFrame:
    """By a Python function: nothing in Spark counts beyond 38 digits. Nothing is validated."""
    value: Column = F.udf(_decimal, S.StringType())(F.col("data"))
    return (
        frames["logs"]
        .where((F.col("topic0") == TRANSFER) & F.col("topic2").isNotNull())
        .where(F.col("topic3").isNull())
        .select(
            *_KEPT,
            "address",
            F.concat(F.lit("0x"), F.substring("topic1", 27, 40)).alias("from"),
            F.concat(F.lit("0x"), F.substring("topic2", 27, 40)).alias("to"),
            value.alias("value"),
        )
    )


def _decoded_by_function(frames: Frames, blocks: int) -> DataFrame:
    return decoded_logs(frames["logs"], DecodeLogsConfig(**_DECODE))  # type: ignore[arg-type]


def _inside(table: str, index: str, also: str) -> str:
    order = f"OVER (PARTITION BY block_number ORDER BY {index})"
    return f"""
  SELECT block_number, count(*) AS there, min(block_hash) AS least, max(block_hash) AS greatest,
         sum(CASE WHEN wrong THEN 1 ELSE 0 END) AS misplaced
    FROM (SELECT block_number, block_hash,
                 {index} <> row_number() {order} - 1{also.format(order=order)} AS wrong
            FROM {table})
   GROUP BY block_number"""


_BACK = " OR coalesce(lag(transaction_index) {order} > transaction_index, false)"
_CHECKED = f"""
WITH linked AS (
  SELECT number, hash, parent_hash, transaction_count, log_count,
         lag(number) OVER (ORDER BY number, hash) AS before,
         lag(hash) OVER (ORDER BY number, hash) AS before_hash FROM blocks),
t AS ({_inside("transactions", "transaction_index", "")}),
l AS ({_inside("logs", "log_index", _BACK)})
SELECT CAST(coalesce(sum(CASE WHEN number > before + 1 THEN number - before - 1 ELSE 0 END), 0)
            AS BIGINT) AS gaps,
       count(CASE WHEN number = before THEN 1 END) AS duplicates,
       count(CASE WHEN number = before + 1 AND parent_hash <> before_hash THEN 1 END)
         AS broken_links,
       count(CASE WHEN number IS NULL
                    OR coalesce(t.there, 0) <> transaction_count OR t.misplaced > 0
                    OR t.least <> hash OR t.greatest <> hash
                    OR coalesce(l.there, 0) <> log_count OR l.misplaced > 0
                    OR l.least <> hash OR l.greatest <> hash THEN 1 END) AS count_mismatches
  FROM linked FULL OUTER JOIN t ON linked.number = t.block_number
              FULL OUTER JOIN l ON coalesce(linked.number, t.block_number) = l.block_number"""


def _checked(frames: Frames, blocks: int) -> DataFrame:
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames["blocks"].sparkSession.sql(_CHECKED).coalesce(1)


CASES: Sequence[Case] = (
    Case("sql_transform", ("logs",), lambda _: {"sql": _SELECT}, _sql, lambda _: _SELECT),
    Case(
        "enrich",
        ("logs", "labels"),
        lambda _: {"lookups": [{"input": "labels", "keys": {"address": "address"}}]},
        _labelled,
        lambda _: "SELECT logs.*, label, category FROM logs LEFT JOIN labels USING (address)",
    ),
    Case(
        "rollup",
        ("transfers",),
        _rollup_config,
        _rollup,
        lambda blocks: (
            f"SELECT token, block_number - block_number % {bucket_size(blocks)} AS bucket, "
            "count(*) AS transfers, sum(amount::HUGEINT)::VARCHAR AS volume, "
            "max(amount::HUGEINT)::VARCHAR AS largest FROM transfers GROUP BY 1, 2 ORDER BY 2, 1"
        ),
        _rollup_function,
    ),
    Case(
        "parquet_compact",
        ("logs",),
        lambda _: {},
        _compacted,
        lambda _: "SELECT * FROM logs ORDER BY block_number, transaction_index, log_index",
    ),
    Case(
        "decode_logs",
        ("logs",),
        lambda _: {**_DECODE, "undecodable": "mark"},
        _decoded,
        lambda _: (
            f"SELECT {', '.join(_KEPT)}, address, '0x' || substr(topic1, 27) AS \"from\", "
            '\'0x\' || substr(topic2, 27) AS "to", data AS "value" '
            f"FROM logs WHERE topic0 = '{TRANSFER}' AND topic2 IS NOT NULL AND topic3 IS NULL"
        ),
        _decoded_by_function,
        duckdb_same=False,
    ),
    Case(
        "integrity_check",
        ("blocks", "transactions", "logs"),
        lambda _: {"columns": {}},
        _checked,
        lambda _: _CHECKED,
    ),
)
