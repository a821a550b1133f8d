"""Hearing nothing, where nobody may wait: a function that waits is paid for."""

from __future__ import annotations

from datetime import timedelta


class NoArrivals:
    """`Arrivals` whose callers poll."""

    def next(self, queue: str, seen: int | None, timeout: timedelta) -> int | None:
        return None

    def close(self) -> None:
        pass
