"""The settings of the built-in operators."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

INT64_MAX = 2**63 - 1

ColumnName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]


class OperatorConfig(BaseModel):
    """Nothing is converted and nothing unknown is accepted: a typo must not become a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RangeAggregatorConfig(OperatorConfig):
    cursor: ColumnName = Field(
        description="The field that orders the input, such as a block number."
    )
    range_size: int = Field(ge=1, le=INT64_MAX, description="How many values one range holds.")
    finality_depth: int = Field(
        default=0,
        ge=0,
        le=INT64_MAX,
        description="A range is announced once the cursor is this far past its end.",
    )


class RangeSplitterConfig(OperatorConfig):
    chunk_size: int = Field(ge=1, le=INT64_MAX, description="How many values one chunk holds.")


class RangeRequestConfig(OperatorConfig):
    """Takes its range from the request."""


class TriggerCronConfig(OperatorConfig):
    catch_up: Literal["latest", "all"] = Field(
        default="latest",
        description="After a pause: fire once, or once for each missed time.",
    )
    max_catch_up: int = Field(
        default=100, ge=1, le=10_000, description="At most this many missed times are fired."
    )
