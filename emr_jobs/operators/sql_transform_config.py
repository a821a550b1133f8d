"""The settings of `sql_transform`; importing this needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emr_jobs.configs import COLUMN_PATTERN, NAME_PATTERN, setting


@dataclass(frozen=True)
class SqlTransformConfig:
    """One SELECT over the inputs, which go by their aliases."""

    sql: str = setting(description="One SELECT over the inputs.", min_length=1)
    types: Mapping[str, str] = setting(
        {},
        description="Types of result columns that Spark does not know, such as `numeric(78,0)`.",
        key_pattern=COLUMN_PATTERN,
    )
    cursor_column: str | None = setting(
        None,
        description="The result's column with the cursors, such as a block number: readers of a "
        "part then get exactly its rows.",
        pattern=COLUMN_PATTERN,
    )
    sort_by: tuple[str, ...] = setting(
        (), description="Order of the written rows.", pattern=COLUMN_PATTERN
    )
    name: str = setting(
        "rows", description="How the written objects are called.", pattern=NAME_PATTERN
    )
