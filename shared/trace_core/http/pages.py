"""Pages: one rule for every list that can grow.

A list is asked with `limit` and `cursor`, and answered with `next`: a text for the page after it,
or null on the last one. Pages go by keys, not by counts, so that rows that come in meanwhile move
nothing.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_core.kernel.errors import Invalid

LIMIT_MAX = 500
Row = TypeVar("Row")
Key = str | int
Limit = Annotated[
    int, Field(ge=1, le=LIMIT_MAX, description="How many at most; a page may hold fewer.")
]
Cursor = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_-]{1,1000}$",
        description="`next` of the page before this one; nothing for the first.",
    ),
]


class PageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Limit = 50
    cursor: Cursor | None = None


def encode(key: Key) -> str:
    text = json.dumps([key], separators=(",", ":")).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def after_id(cursor: str | None) -> UUID | None:
    """The id that the page before ended with."""
    key = after_text(cursor)
    try:
        return None if key is None else UUID(key)
    except ValueError:
        raise _not_ours() from None


def after_number(cursor: str | None) -> int | None:
    key = _decoded(cursor)
    if key is None:
        return None
    if type(key) is not int or not 0 <= key < 2**31:
        raise _not_ours()
    return key


def after_text(cursor: str | None) -> str | None:
    key = _decoded(cursor)
    if key is None:
        return None
    # Text of somebody else's making may hold what Postgres cannot store.
    if not isinstance(key, str) or not key.isprintable():
        raise _not_ours()
    return key


def _decoded(cursor: str | None) -> object:
    if cursor is None:
        return None
    try:
        (key,) = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, RecursionError):
        raise _not_ours() from None
    if key is None:
        raise _not_ours()
    return key


def _not_ours() -> Invalid:
    return Invalid("This cursor is not of this list: take `next` of its page before.")


def cut(
    rows: Sequence[Row], limit: int, key: Callable[[Row], Key | UUID]
) -> tuple[Sequence[Row], str | None]:
    """A page, from one row more than it holds; and where the next one goes on."""
    if len(rows) <= limit:
        return rows, None
    last = key(rows[limit - 1])
    return rows[:limit], encode(str(last) if isinstance(last, UUID) else last)


def cut_whole(
    rows: Sequence[dict[str, Any]], query: PageQuery, key: Callable[[dict[str, Any]], str]
) -> tuple[Sequence[dict[str, Any]], str | None]:
    """A page of a list that is small enough to be read as a whole, such as an org's members."""
    ordered = sorted(rows, key=key)
    start = after_text(query.cursor)
    if start is not None:
        ordered = [row for row in ordered if key(row) > start]
    return cut(ordered, query.limit, key)
