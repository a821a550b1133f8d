"""What the user API is asked about datasets."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field, model_validator

from trace_core.http import pages
from trace_core.http.identity_calls import Label, RoleName
from trace_core.http.pages import PageQuery
from trace_core.http.wire import Name, Wire
from trace_core.kernel.errors import Invalid
from trace_core.kernel.limits import HEAD_ROWS_MAX as ROWS_MAX
from trace_core.tasks.api import Scoped

SnapshotName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$", examples=["q3-report"])]
Contained = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,128}$")]
ScopeKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.=:+-]{1,200}$", examples=["1000-1999"])]
Part = Annotated[int, Field(ge=0, le=1000)]
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]


class DatasetsQuery(PageQuery):
    dag: Name | None = None
    contains: Contained | None = Field(None, description="Only names with this in them.")
    mine: bool = Field(False, description="Only those that you own.")
    hidden: bool = Field(
        False, description="Those that are published no more; administrators see them."
    )


class PartitionsQuery(PageQuery):
    part: Part | None = None
    scope: ScopeKey | None = Field(None, description="Only this cursor or partition key.")


class StorageQuery(PageQuery):
    dag: Name | None = None


class ReadRolesRequest(Wire):
    roles: Annotated[list[RoleName], Field(max_length=50)]


class OwnerRequest(Wire):
    user_id: UUID | None = Field(description="A member; null: the creator of the DAG.")


class SnapshotRequest(Wire):
    snapshot: SnapshotName
    description: Label | None = None


class HeadQuery(Wire):
    limit: Annotated[int, Field(ge=1, le=ROWS_MAX, description="How many rows at most.")] = 20
    version: UUID | None = Field(None, description="A version that is, or was, current.")
    number: Number | None = Field(None, description="The commit of that version; else its last.")
    snapshot: SnapshotName | None = None

    @model_validator(mode="after")
    def _one_moment(self) -> HeadQuery:
        if self.snapshot is not None and self.version is not None:
            raise ValueError("give a version or a snapshot, not both")
        if self.number is not None and self.version is None:
            raise ValueError("a number counts the commits of one version: give it too")
        return self


class VerifyQuery(Wire):
    cursor: pages.Cursor | None = None
    scope: ScopeKey | None = Field(None, description="Only this cursor or partition key.")


class LineageQuery(Wire):
    scope: ScopeKey | None = Field(None, description="A cursor, a range or a partition key.")
    depth: Annotated[int, Field(ge=0, le=20, description="How many jobs upstream.")] = 3
    number: Number | None = Field(None, description="As it was after that commit.")


class InvalidationRequest(Scoped):
    """One cursor, one partition, or a range; nothing of them: all of the dataset."""

    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    key: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")] = Field(
        description="Of your choice: the same request again has the same key, and does no more."
    )


class PurgeQuery(Wire):
    version: UUID | None = Field(None, description="Only this one; else all that are stored.")


class PurgeRequest(Wire):
    versions: Annotated[list[UUID], Field(min_length=1, max_length=100)]


def after_partition(cursor: str | None) -> tuple[int, int] | None:
    """Part and number of the last partition on the page before."""
    text = pages.after_text(cursor)
    if text is None:
        return None
    part, _, number = text.partition(":")
    if not (part.isascii() and part.isdecimal() and number.isascii() and number.isdecimal()):
        raise Invalid("This cursor is not of this list: take `next` of its page before.")
    found = int(part), int(number)
    if found[0] >= 2**31 or found[1] >= 2**63:
        raise Invalid("This cursor is not of this list: take `next` of its page before.")
    return found
