"""All pages of a list, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from trace_core.http.wire import Page

AnyPage = TypeVar("AnyPage", bound=Page)


def each_page(ask: Callable[[str | None], AnyPage]) -> Iterator[AnyPage]:
    """`ask` is called with a cursor, at first with None: `lambda at: client.tasks(cursor=at)`."""
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield page
        cursor = page.next
        if cursor is None:
            return
