"""Durations as people write them: `60s`, `15m`, `12h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta

DURATION = re.compile(r"[1-9][0-9]{0,7}[smhd]")
DURATION_MAX = timedelta(days=3650)

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> timedelta | None:
    """Nothing when it is not a duration, or one beyond ten years."""
    if not DURATION.fullmatch(text):
        return None
    duration = timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    return duration if duration <= DURATION_MAX else None
