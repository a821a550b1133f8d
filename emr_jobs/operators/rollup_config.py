"""The settings of `rollup`; without Spark, for the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from emr_jobs.configs import COLUMN_PATTERN, NAME_PATTERN, setting


@dataclass(frozen=True)
class Bucket:
    """What the rows are cut into."""

    by: Literal["cursor", "time", "number"] = setting(
        description="`cursor`: the column that orders the input's ranges, such as a block number. "
        "`time`: an instant. `number`: any other whole number."
    )
    column: str = setting(description="The column that is cut.", pattern=COLUMN_PATTERN)
    size: int = setting(
        description="How many values one bucket holds; of `time`, how many seconds.", ge=1
    )
    name: str = setting(
        "bucket", description="The column with the bucket's first value.", pattern=COLUMN_PATTERN
    )


@dataclass(frozen=True)
class Aggregate:
    """One figure of each group."""

    function: Literal["count", "sum", "min", "max", "avg", "count_distinct"] = setting(
        description="Sums are exact; `avg` is a double."
    )
    column: str | None = setting(
        None,
        description="Whose values count; `count` without one counts rows.",
        pattern=COLUMN_PATTERN,
    )


@dataclass(frozen=True)
class RollupConfig:
    """Figures for groups of rows."""

    aggregates: Mapping[str, Aggregate] = setting(
        description="Column of the result: what it holds.",
        key_pattern=COLUMN_PATTERN,
        min_length=1,
        max_length=100,
    )
    group_by: tuple[str, ...] = setting(
        (), description="Columns whose values make a group.", pattern=COLUMN_PATTERN
    )
    bucket: Bucket | None = setting(None, description="Cuts each group into buckets.")
    partial: bool = setting(
        False,
        description="Whether a row may hold what one range has of its group: it then has the "
        "columns `range_start` and `range_end`, and readers add up.",
    )
    input: str | None = setting(
        None, description="The input with the rows, where there are several."
    )
    name: str = setting(
        "rows", description="How the written objects are called.", pattern=NAME_PATTERN
    )
