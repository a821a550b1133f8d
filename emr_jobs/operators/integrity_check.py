"""What is wrong with a range of a chain: gaps, duplicates, broken links, wrong counts and order.

One verdict for each range, whatever it says; and the smallest bad ranges are told to the producers
of the rows, which write them again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from emr_jobs.columns import spark_type
from emr_jobs.operators.inputs import row_inputs
from emr_jobs.operators.integrity_check_config import (
    BAD,
    BLOCKS,
    INSIDE,
    OK,
    VERDICTS,
    IntegrityCheckConfig,
)
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import Bounds

_NEEDED = ("number", "hash", "parent_hash")


@dataclass(frozen=True)
class Found:
    """What one pass over a range found."""

    gaps: int
    duplicates: int
    broken_links: int
    count_mismatches: int
    first_gap: int | None
    first_duplicate: int | None
    first_broken: int | None
    first_mismatch: int | None
    behind: int
    """Where the next block would be."""

    @property
    def first_bad(self) -> int | None:
        firsts = (self.first_gap, self.first_duplicate, self.first_broken, self.first_mismatch)
        return min((each for each in firsts if each is not None), default=None)

    @property
    def reason(self) -> str | None:
        """In words, for people; nothing where nothing is wrong."""
        told = []
        if self.gaps:
            told.append(f"{self.gaps} blocks are missing, first {self.first_gap}")
        if self.duplicates:
            told.append(f"{self.duplicates} blocks too many, first {self.first_duplicate}")
        if self.broken_links:
            told.append(
                f"{self.broken_links} blocks are no children of the one before, first "
                f"{self.first_broken}"
            )
        if self.count_mismatches:
            told.append(
                f"the rows of {self.count_mismatches} blocks are not those that their header "
                f"counts, first {self.first_mismatch}"
            )
        return "; ".join(told) or None


@dataclass(frozen=True)
class Aliases:
    blocks: str
    transactions: str | None
    logs: str | None


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(IntegrityCheckConfig)
    first, last = task.range()
    aliases = aliases_of(task, config)
    inside = {
        alias: ordered(_named(io.read(alias), INSIDE, config, ("block_number", index)), index)
        for alias, index in (
            (aliases.transactions, "transaction_index"),
            (aliases.logs, "log_index"),
        )
        if alias is not None
    }
    counted = {aliases.transactions: "transaction_count", aliases.logs: "log_count"}
    judged = judge(
        _named(io.read(aliases.blocks), BLOCKS, config, _NEEDED),
        [(counted[alias], rows) for alias, rows in inside.items()],
        first,
        last,
    )
    found = summed(judged, first, last)
    io.write(0, verdict(io.spark, found, task, (first, last)), name="verdicts", one_file=True)
    if found.first_bad is None or not config.invalidate:
        return
    bad = merged(bad_ranges(judged), config.max_invalidations)
    if found.behind <= last:
        bad[0] = with_end(bad.get(0, []), (found.behind, last), config.max_invalidations)
    for source, alias in enumerate([aliases.blocks, *inside]):
        for bounds in bad.get(source, []):
            io.invalidate(alias, Scope.of_range(*bounds), f"integrity_check: {found.reason}")


def aliases_of(task: SparkTask, config: IntegrityCheckConfig) -> Aliases:
    transactions, logs = (
        task.input(named).alias if named else usual if task.has_input(usual) else None
        for named, usual in ((config.transactions, "transactions"), (config.logs, "logs"))
    )
    blocks = config.blocks or ("blocks" if task.has_input("blocks") else None)
    if blocks is None:
        possible = row_inputs(task, but=(transactions, logs))
        if len(possible) != 1:
            raise OperatorFailed(
                f"the blocks could be any of {', '.join(possible) or 'no inputs'}; name them in "
                "`blocks`",
                code="ConfigInvalid",
            )
        [blocks] = possible
    return Aliases(task.input(blocks).alias, transactions, logs)


def judge(
    blocks: DataFrame, inside: Sequence[tuple[str, DataFrame]], first: int, last: int
) -> DataFrame:
    """A row for each block, and for each block that only others know of, with what is wrong.

    The block before the range is looked at as well, where the input has it: its hash is the first
    one's parent. `inside` are counted rows by block, and the block's column that counts them.
    """
    judged = linked(blocks, first, last)
    for at, (count, rows) in enumerate(inside):
        counts = [count] if count in blocks.columns else []
        judged = judged.join(
            rows.where(F.col("block_number").between(first, last)).select(
                F.col("block_number").alias("number"),
                *(F.col(each).alias(f"{each}_{at}") for each in rows.columns[1:]),
            ),
            on="number",
            how="full_outer",
        )
        judged = judged.withColumn(f"mismatch_{at}", _mismatch(at, counts, rows.columns))
    return judged


def linked(blocks: DataFrame, first: int, last: int) -> DataFrame:
    """Each block beside the one before it."""
    order = Window.orderBy("number", "hash")
    before, its_hash = F.lag("number").over(order), F.lag("hash").over(order)
    return (
        blocks.where(F.col("number").between(first - 1, last))
        .select("*", before.alias("before"), its_hash.alias("before_hash"))
        .where(F.col("number") >= first)
        .select(
            *(each for each in blocks.columns if each != "parent_hash"),
            F.greatest(
                F.col("number") - F.coalesce(F.col("before"), F.lit(first - 1)) - 1, F.lit(0)
            ).alias("missing"),
            F.coalesce(F.col("before") == F.col("number"), F.lit(False)).alias("duplicate"),
            (
                F.coalesce(F.col("before") == F.col("number") - 1, F.lit(False))
                & ~F.col("parent_hash").eqNullSafe(F.col("before_hash"))
            ).alias("broken"),
        )
    )


def ordered(rows: DataFrame, index: str) -> DataFrame:
    """For each block: how many rows, how many out of their place, and of which block they say.

    In a block, indexes count from 0; and what belongs to a later transaction has a higher one.
    """
    place = Window.partitionBy("block_number").orderBy(index)
    wrong = ~F.col(index).eqNullSafe(F.row_number().over(place) - 1)
    if index != "transaction_index" and "transaction_index" in rows.columns:
        back = F.lag("transaction_index").over(place) > F.col("transaction_index")
        wrong |= F.coalesce(back, F.lit(False))
    hashes = []
    if "block_hash" in rows.columns:
        hashes = [F.min("block_hash").alias("least"), F.max("block_hash").alias("greatest")]
    return (
        rows.select("*", wrong.alias("wrong"))
        .groupBy("block_number")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(F.col("wrong"), True)).alias("misplaced"),
            *hashes,
        )
    )


def _mismatch(at: int, counts: Sequence[str], columns: Sequence[str]) -> Column:
    rows = F.coalesce(F.col(f"rows_{at}"), F.lit(0))
    wrong = [F.col(f"misplaced_{at}") > 0, F.col("hash").isNull() & (rows > 0)]
    wrong += [F.col(each) != rows for each in counts]
    if "least" in columns:
        wrong += [F.col(f"{each}_{at}") != F.col("hash") for each in ("least", "greatest")]
    known = functools.reduce(Column.__or__, [F.coalesce(each, F.lit(False)) for each in wrong])
    # A block that is there twice is counted once.
    return known & ~F.coalesce(F.col("duplicate"), F.lit(False))


def summed(judged: DataFrame, first: int, last: int) -> Found:
    """All of it in one pass; what is missing behind the last block follows from that one."""
    flags = [F.col(each) for each in _mismatches(judged)]
    mismatch = functools.reduce(Column.__or__, flags, F.lit(False))
    there = F.col("duplicate").isNotNull()
    number, missing = F.col("number"), F.col("missing")
    row = judged.agg(
        F.max(F.when(there, number)).alias("highest"),
        F.coalesce(F.sum("missing"), F.lit(0)).alias("missing"),
        F.count(F.when(F.col("duplicate"), True)).alias("duplicates"),
        F.count(F.when(F.col("broken"), True)).alias("broken"),
        F.count(F.when(mismatch, True)).alias("mismatches"),
        F.min(F.when(missing > 0, number - missing)).alias("first_gap"),
        F.min(F.when(F.col("duplicate"), number)).alias("first_duplicate"),
        F.min(F.when(F.col("broken"), number)).alias("first_broken"),
        F.min(F.when(mismatch, number)).alias("first_mismatch"),
    ).first()
    assert row is not None  # noqa: S101 - an aggregate of everything is one row
    behind = (row["highest"] if row["highest"] is not None else first - 1) + 1
    first_gap = row["first_gap"] if row["first_gap"] is not None else behind
    return Found(
        gaps=row["missing"] + last + 1 - behind,
        duplicates=row["duplicates"],
        broken_links=row["broken"],
        count_mismatches=row["mismatches"],
        first_gap=first_gap if first_gap <= last else None,
        first_duplicate=row["first_duplicate"],
        first_broken=row["first_broken"],
        first_mismatch=row["first_mismatch"],
        behind=behind,
    )


def verdict(spark: SparkSession, found: Found, task: SparkTask, bounds: Bounds) -> DataFrame:
    values = {
        "range_start": bounds[0],
        "range_end": bounds[1],
        "verdict": OK if found.first_bad is None else BAD,
        "gaps": found.gaps,
        "duplicates": found.duplicates,
        "broken_links": found.broken_links,
        "count_mismatches": found.count_mismatches,
        "first_bad": found.first_bad,
        "reason": found.reason,
        "checked_at": task.now,
    }
    return spark.range(1).select(
        *(F.lit(values[name]).cast(spark_type(kind)).alias(name) for name, kind in VERDICTS)
    )


def bad_ranges(judged: DataFrame) -> DataFrame:
    """Bounds of what is bad, by its source: 0 the blocks, from 1 on what is inside of them.

    Of a broken link either end may be the bad one.
    """
    number = F.col("number")
    parts = [
        (0, F.col("missing") > 0, number - F.col("missing"), number - 1),
        (0, F.col("duplicate"), number, number),
        (0, F.col("broken"), number - 1, number),
        *((at + 1, F.col(each), number, number) for at, each in enumerate(_mismatches(judged))),
    ]
    bounds = (
        F.when(wrong, F.struct(F.lit(at).alias("source"), start.alias("start"), end.alias("end")))
        for at, wrong, start, end in parts
    )
    return (
        judged.select(F.explode(F.array(*bounds)).alias("bad"))
        .where(F.col("bad").isNotNull())
        .select("bad.*")
    )


def merged(bounds: DataFrame, at_most: int) -> dict[int, list[Bounds]]:
    """As few and as small ranges of each source as hold them all; too many become one at the end.

    In one pass: only what is bad is moved.
    """
    order = Window.partitionBy("source").orderBy("start", "end")
    reached = F.max("end").over(order.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("start") > F.col("reached") + 1, F.lit(True)).cast("int")
    islands = (
        bounds.select("*", reached.alias("reached"))
        .select("source", "start", "end", F.sum(apart).over(order).alias("island"))
        .groupBy("source", F.least("island", F.lit(at_most)).alias("island"))
        .agg(F.min("start").alias("start"), F.max("end").alias("end"))
    )
    found: dict[int, list[Bounds]] = {}
    for row in sorted(islands.collect(), key=lambda each: (each["source"], each["island"])):
        found.setdefault(row["source"], []).append((row["start"], row["end"]))
    return found


def with_end(ranges: Sequence[Bounds], end: Bounds, at_most: int) -> list[Bounds]:
    """With what is missing behind the last block."""
    if ranges and (ranges[-1][1] + 1 >= end[0] or len(ranges) >= at_most):
        return [*ranges[:-1], (ranges[-1][0], end[1])]
    return [*ranges, end]


def _mismatches(judged: DataFrame) -> list[str]:
    return [each for each in judged.columns if each.startswith("mismatch_")]


def _named(
    rows: DataFrame, names: Sequence[str], config: IntegrityCheckConfig, needed: Sequence[str]
) -> DataFrame:
    """The columns that are looked at, under the names that they have here."""
    found: Mapping[str, str] = {each: config.columns.get(each, each) for each in names}
    if missing := [found[each] for each in needed if found[each] not in rows.columns]:
        raise OperatorFailed(
            f"an input has no column {', '.join(missing)}; it has: {', '.join(rows.columns)}; "
            "other names are said in `columns`",
            code="ConfigInvalid",
        )
    there = ((name, its) for name, its in found.items() if its in rows.columns)
    return rows.select(*(F.col(its).alias(name) for name, its in there))
