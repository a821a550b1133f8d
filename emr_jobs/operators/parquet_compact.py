"""Hot rows, or many small files, of a range as one sorted file that has the range in its name.

The same rows give the same bytes. What was written is read back and judged before it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.operators.inputs import row_inputs
from emr_jobs.operators.parquet_compact_config import CompactTable, ParquetCompactConfig
from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask

CURSORS = ("block_number", "number")
"""Of rows from a chain, where nobody says otherwise."""
ORDERS = ("transaction_index", "log_index")


@dataclass(frozen=True)
class Table:
    """One input with everything that its settings leave to its columns."""

    alias: str
    name: str
    cursor: str
    sort_by: tuple[str, ...]
    unique: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """What a written file holds."""

    rows: int
    without_cursor: int
    keys: int
    duplicate: str | None


def run(task: SparkTask, io: SparkIO) -> None:
    config = task.config_as(ParquetCompactConfig)
    first, last = task.range()
    tables = tables_of(task, config)
    if config.heads is not None:
        check_final(io.read(config.heads), last, config.finality_depth)
    for index, given in enumerate(tables):
        rows = io.read(given.input)
        table = settled(given, rows.columns)
        inside = within(rows, table.cursor, first, last)
        written = io.write(
            index,
            inside,
            name=table.name,
            sort_by=table.sort_by,
            one_file=True,
            cursor_column=table.cursor,
        )
        back = io.read_back(written)
        # Counted in a scan of its own, of one column: to count rows as they pass costs far more.
        check(table, found_in(back, table), inside.count(), first, last)
        if config.expect == "contiguous":
            check_contiguous(back, table, first, last)


def tables_of(task: SparkTask, config: ParquetCompactConfig) -> list[CompactTable]:
    if config.tables:
        tables = [*config.tables]
    else:
        tables = [
            CompactTable(alias, config.name, config.cursor, config.sort_by, config.unique)
            for alias in row_inputs(task, but=(config.heads,))
        ]
    if config.name is not None and len(tables) > 1:
        raise OperatorFailed(
            "`name` is for one input; name each of several in `tables`", code="ConfigInvalid"
        )
    if len(tables) != len(task.outputs):
        raise OperatorFailed(
            f"{len(tables)} inputs are to be compacted ({', '.join(t.input for t in tables)}), and "
            f"the job has {len(task.outputs)} outputs; give it one for each, or list `tables`",
            code="ConfigInvalid",
        )
    return tables


def settled(table: CompactTable, columns: Sequence[str]) -> Table:
    known = next((each for each in CURSORS if each in columns), None)
    cursor = table.cursor or known or next(iter(table.sort_by), None)
    if cursor is None:
        raise OperatorFailed(
            f"nothing says which column of {table.input} places its rows; set `cursor`",
            code="ConfigInvalid",
        )
    orders = tuple(each for each in ORDERS if each in columns)
    if table.unique is not None:
        unique = table.unique
    elif cursor == "number":
        unique = (cursor,)
    else:
        # A log is found by its block and its place there, whatever transaction it is of.
        unique = (cursor, orders[-1]) if cursor == "block_number" and orders else ()
    named = {cursor, *table.sort_by, *unique}
    if unknown := sorted(named - set(columns)):
        raise OperatorFailed(
            f"{table.input} has no column {', '.join(unknown)}; it has: {', '.join(columns)}",
            code="ConfigInvalid",
        )
    sort_by = table.sort_by or (cursor, *orders)
    return Table(table.input, table.name or table.input, cursor, sort_by, unique)


def within(rows: DataFrame, cursor: str, first: int, last: int) -> DataFrame:
    """The rows of the range; those that nothing places stay, to be refused."""
    return rows.where(F.col(cursor).between(first, last) | F.col(cursor).isNull())


def check_final(heads: DataFrame, last: int, depth: int) -> None:
    """Refuse, for now, a range that a reorg may still rewrite."""
    reached = F.least(*(F.col(each) for each in ("latest", "followed")))
    row = heads.agg(F.max(reached).alias("reached")).first()
    head = row["reached"] if row is not None else None
    if head is None or head - depth < last:
        where = "no head is known" if head is None else f"the head is {head}"
        raise OperatorFailed(
            f"the range ends at {last}, which is not final at depth {depth}: {where}; it is tried "
            "again. A `finality_depth` of the range_aggregator announces ranges only when they are",
            retryable=True,
            code="NotFinal",
        )


def found_in(back: DataFrame, table: Table) -> Found:
    """In one pass over the columns that identify and place the rows.

    64 values of a whole number are one group, of which the bits say which are there: to group by
    each of them would move all rows.
    """
    whole = next((c for c in reversed(table.unique) if _is_whole(back, c)), None)
    groups = [F.col(each) for each in table.unique if each != whole]
    keys = F.lit(1)
    if whole is not None:
        groups.append(F.shiftright(whole, 6))
        place = F.col(whole).bitwiseAND(63).cast("int")
        bits = F.bit_or(F.call_function("shiftleft", F.lit(1).cast("bigint"), place))
        keys = F.coalesce(F.bit_count(bits), F.lit(1))
    row = (
        back.groupBy(*groups)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(F.col(table.cursor).isNull(), True)).alias("unplaced"),
            keys.alias("keys"),
        )
        .agg(*(F.coalesce(F.sum(each), F.lit(0)) for each in ("rows", "unplaced", "keys")))
        .first()
    )
    assert row is not None  # noqa: S101 - an aggregate of everything is one row
    rows, without_cursor, known = row
    if not table.unique or known == rows:
        return Found(rows, without_cursor, rows, None)
    return Found(rows, without_cursor, known, first_duplicate(back, table.unique))


def first_duplicate(back: DataFrame, unique: Sequence[str]) -> str | None:
    key = F.concat_ws(", ", *(F.concat(F.lit(f"{c} "), F.col(c).cast("string")) for c in unique))
    twice = back.groupBy(*unique).agg(F.count(F.lit(1)).alias("__rows")).where("__rows > 1")
    row = twice.agg(F.min(key)).first()
    return row[0] if row is not None else None


def check(table: Table, found: Found, read: int, first: int, last: int) -> None:
    if found.rows != read:
        raise OperatorFailed(
            f"{read} rows of {table.alias} were read and {found.rows} written",
            retryable=True,
            code="RowsLost",
        )
    if found.without_cursor:
        raise OperatorFailed(
            f"{found.without_cursor} rows of {table.alias} have no {table.cursor}, which places "
            "them in a range",
            code="RowsInvalid",
        )
    if found.keys != found.rows:
        raise OperatorFailed(
            f"{found.rows - found.keys} rows of {table.alias} in {first}-{last} are there twice, "
            f"first {found.duplicate}; their producer is to write the range again, or `unique` is "
            "to name what identifies a row",
            code="DuplicateRows",
        )


def check_contiguous(back: DataFrame, table: Table, first: int, last: int) -> None:
    """Refuse a range with a cursor that no row has."""
    cursors = back.select(F.col(table.cursor).alias("cursor")).distinct()
    there, wanted = cursors.count(), last - first + 1
    if there == wanted:
        return
    # Counted from the start of the range, the first that is not in its place follows a gap.
    place = F.row_number().over(Window.orderBy("cursor")) - 1 + F.lit(first)
    row = (
        cursors.select("cursor", place.alias("place"))
        .agg(F.min(F.when(F.col("cursor") != F.col("place"), F.col("place"))).alias("gap"))
        .first()
    )
    gap = row["gap"] if row is not None else None
    raise OperatorFailed(
        f"{wanted - there} of {wanted} cursors of {first}-{last} have no row in {table.alias}, "
        f"first {first + there if gap is None else gap}",
        retryable=True,
        code="RangeIncomplete",
    )


def _is_whole(rows: DataFrame, column: str) -> bool:
    return isinstance(rows.schema[column].dataType, (S.ShortType, S.IntegerType, S.LongType))
