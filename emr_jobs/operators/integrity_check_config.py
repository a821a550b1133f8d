"""The settings and the rows of `integrity_check`; without Spark, for the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emr_jobs.configs import COLUMN_PATTERN, setting

BLOCKS = ("number", "hash", "parent_hash", "transaction_count", "log_count")
INSIDE = ("block_number", "block_hash", "transaction_index", "log_index")
"""Of transactions and logs."""

VERDICTS = (
    ("range_start", "bigint"),
    ("range_end", "bigint"),
    ("verdict", "text"),
    ("gaps", "bigint"),
    ("duplicates", "bigint"),
    ("broken_links", "bigint"),
    ("count_mismatches", "bigint"),
    ("first_bad", "bigint"),
    ("reason", "text"),
    ("checked_at", "timestamptz"),
)
OK, BAD = "ok", "bad"


@dataclass(frozen=True)
class IntegrityCheckConfig:
    """A verdict on each range of a chain."""

    blocks: str | None = setting(
        None,
        description="The input with the blocks; without it the one called `blocks`, or the only "
        "one that it can be.",
    )
    transactions: str | None = setting(
        None,
        description="An input whose rows are counted for each block; without it the one called "
        "`transactions`, if there is one.",
    )
    logs: str | None = setting(
        None,
        description="An input whose rows are counted for each block, and whose order is looked at; "
        "without it the one called `logs`, if there is one.",
    )
    columns: Mapping[str, str] = setting(
        {},
        pattern=COLUMN_PATTERN,
        description=f"Columns under other names: {', '.join((*BLOCKS, *INSIDE))}.",
    )
    invalidate: bool = setting(
        True, description="Ask the producers of bad ranges to write them again."
    )
    max_invalidations: int = setting(
        100,
        ge=1,
        le=1000,
        description="At most this many ranges of an input; those behind them become one.",
    )

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.columns) - {*BLOCKS, *INSIDE}):
            raise ValueError(
                f"`columns` names {', '.join(unknown)}; it knows {', '.join((*BLOCKS, *INSIDE))}"
            )
