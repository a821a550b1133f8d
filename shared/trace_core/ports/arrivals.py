"""Hearing of messages without receiving them, for callers that cannot reach the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol


class Arrivals(Protocol):
    def next(self, queue: str, seen: int | None, timeout: timedelta) -> int | None:
        """A number that changes when messages arrive; answered once it is not `seen`, or in time.

        None where nobody hears, or nobody may wait: the caller polls then.
        """
        ...
