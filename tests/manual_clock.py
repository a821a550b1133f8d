"""A clock that moves only when a test says so."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
"""Where the clock of every test begins."""


class ManualClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move on, or back by a negative step, as a corrected clock does."""
        with self._lock:
            self._now += by
            return self._now
