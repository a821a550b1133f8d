"""The time, as an argument."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time in UTC; never naive."""

    def now(self) -> datetime: ...
