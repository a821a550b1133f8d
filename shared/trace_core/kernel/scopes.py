"""Scopes: which part of a dataset an event, a task or a commit is about."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Scope:
    """Which part of a dataset: one cursor, one partition (often a range), or all of it.

    Ranges are inclusive at both ends.
    """

    cursor: int | None = None
    partition_key: str | None = None
    start: int | None = None
    end: int | None = None

    @property
    def key(self) -> str:
        """The scope as text, the same for the same scope: a part of the dedupe key."""
        if self.cursor is not None:
            return f"c{self.cursor}"
        if self.partition_key is not None:
            return f"p{self.partition_key}"
        return ""

    @property
    def range(self) -> tuple[int, int] | None:
        if self.cursor is not None:
            return self.cursor, self.cursor
        if self.start is not None and self.end is not None:
            return self.start, self.end
        return None

    @staticmethod
    def of_range(start: int, end: int) -> Scope:
        return Scope(partition_key=f"{start}-{end}", start=start, end=end)

    @staticmethod
    def parse(key: str, start: int | None, end: int | None) -> Scope:
        """The inverse of `key`, with the bounds that are stored beside it."""
        if key.startswith("c"):
            return Scope(cursor=int(key[1:]))
        if key.startswith("p"):
            return Scope(partition_key=key[1:], start=start, end=end)
        return Scope()

    def fields(self) -> dict[str, int | str]:
        """The scope as wire fields, without what is absent."""
        named = {
            "cursor": self.cursor,
            "partition_key": self.partition_key,
            "start": self.start,
            "end": self.end,
        }
        return {name: value for name, value in named.items() if value is not None}


PARTITION_KEY = re.compile(r"[A-Za-z0-9_.=:+-]{1,200}")
RANGE_KEY = re.compile(r"(\d{1,19})-(\d{1,19})")
