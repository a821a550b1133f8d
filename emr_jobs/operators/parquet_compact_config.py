"""The settings of `parquet_compact`; without Spark, for the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from emr_jobs.configs import COLUMN_PATTERN, NAME_PATTERN, setting


@dataclass(frozen=True)
class CompactTable:
    """One input of several, and what is special about it."""

    input: str = setting(description="The input's alias.")
    name: str | None = setting(
        None,
        pattern=NAME_PATTERN,
        description="What its objects are called: `blocks` gives `blocks_0_9999.parquet`. Without "
        "it, the alias.",
    )
    cursor: str | None = setting(
        None,
        pattern=COLUMN_PATTERN,
        description="The column that places a row in the range. Without it, `block_number` or "
        "`number`, and else the first of `sort_by`.",
    )
    sort_by: tuple[str, ...] = setting(
        (),
        pattern=COLUMN_PATTERN,
        description="The order of the rows. Without it, the cursor, `transaction_index` and "
        "`log_index`, as far as the input has them.",
    )
    unique: tuple[str, ...] | None = setting(
        None,
        pattern=COLUMN_PATTERN,
        description="What no two rows have in common. Without it: `number` of blocks, "
        "`block_number` with `transaction_index` of transactions and with `log_index` of logs; "
        "of other rows nothing is known. An empty list asks for no check.",
    )


@dataclass(frozen=True)
class ParquetCompactConfig:
    """One sorted file of each range; one output for each table."""

    name: str | None = setting(
        None, pattern=NAME_PATTERN, description="As in `tables`, for a job with one input."
    )
    cursor: str | None = setting(
        None, pattern=COLUMN_PATTERN, description="As in `tables`, for all inputs."
    )
    sort_by: tuple[str, ...] = setting(
        (), pattern=COLUMN_PATTERN, description="As in `tables`, for all inputs."
    )
    unique: tuple[str, ...] | None = setting(
        None, pattern=COLUMN_PATTERN, description="As in `tables`, for all inputs."
    )
    tables: tuple[CompactTable, ...] = setting(
        (),
        description="The inputs to compact, in the order of the outputs. Without it, all inputs "
        "but the one that triggers and `heads`.",
    )
    expect: Literal["any", "contiguous"] = setting(
        "any", description="`contiguous`: a range with a cursor that no row has is refused."
    )
    heads: str | None = setting(
        None,
        description="An input with the heads of the chain; a range whose end is not final by it "
        "waits and is tried again.",
    )
    finality_depth: int = setting(
        0, ge=0, description="With `heads`: how far the chain must be past the end of a range."
    )

    def __post_init__(self) -> None:
        if self.finality_depth and self.heads is None:
            raise ValueError(
                "`finality_depth` needs `heads`, the input that says how far the chain is; without "
                "one, set `finality_depth` of the `range_aggregator`"
            )
        own = [name for name in ("name", "cursor", "sort_by", "unique") if getattr(self, name)]
        if self.tables and own:
            raise ValueError(f"`{own[0]}` beside `tables` is ambiguous; write it in each table")
        aliases = [each.input for each in self.tables]
        if len(set(aliases)) != len(aliases):
            raise ValueError("an input is listed twice in `tables`")
