"""The settings of `enrich`; without Spark, for the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from emr_jobs.configs import COLUMN_PATTERN, NAME_PATTERN, setting


@dataclass(frozen=True)
class Lookup:
    """One input that is joined to the rows."""

    input: str = setting(description="The input to join.")
    keys: Mapping[str, str] = setting(
        description="Column of the rows: column of this input that must be equal.",
        key_pattern=COLUMN_PATTERN,
        pattern=COLUMN_PATTERN,
        min_length=1,
    )
    columns: tuple[str, ...] = setting(
        (),
        description="What is taken; without it, all columns but those of `keys`.",
        pattern=COLUMN_PATTERN,
    )
    prefix: str = setting(
        "",
        description="Put before the names of what is taken.",
        pattern=r"^[a-z_]?[a-z0-9_]{0,30}$",
    )
    how: Literal["left", "inner"] = setting(
        "left", description="`left` keeps rows without a match; `inner` drops them."
    )
    many: Literal["fail", "lowest", "all"] = setting(
        "fail",
        description="Where several rows have the same key: `fail`; `lowest` takes the one that "
        "comes first when what is taken is ordered; `all` multiplies the rows.",
    )
    match: Literal["exact", "address"] = setting(
        "exact", description="`address` compares text without regard to upper and lower case."
    )


@dataclass(frozen=True)
class EnrichConfig:
    """Rows with columns of other inputs beside them."""

    lookups: tuple[Lookup, ...] = setting(
        description="What is joined, in this order.", min_length=1, max_length=20
    )
    input: str | None = setting(
        None, description="The input with the rows; without it, the only one that is no lookup."
    )
    cursor_column: str | None = setting(
        None, description="The rows' column with the cursors.", pattern=COLUMN_PATTERN
    )
    sort_by: tuple[str, ...] = setting(
        (), description="Order of the written rows.", pattern=COLUMN_PATTERN
    )
    name: str = setting(
        "rows", description="How the written objects are called.", pattern=NAME_PATTERN
    )
