"""What every model of the wire has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,127}$", examples=["first_steps"])]
Time = AwareDatetime


class Wire(BaseModel):
    """What is not named here is not taken, and not answered either."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Page(Wire):
    """A part of a list."""

    next: str | None = Field(
        description="`cursor` of the next page; null on the last one.", examples=[None]
    )
