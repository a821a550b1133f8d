"""Exponential backoff with jitter: `min(cap, base * 2^attempt) * rand(0.5..1.5)`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

Jitter = Callable[[], float]
"""A number in [0, 1). An argument, so that a simulation owns the randomness."""


def delay(base: timedelta, cap: timedelta, attempt: int, jitter: Jitter) -> timedelta:
    """How long to wait before retry number `attempt`, counted from 0."""
    if attempt < 0:
        raise ValueError("attempt counts from 0")
    # 2^attempt overflows a timedelta long before it stops being capped.
    nominal = cap if attempt > 30 else min(cap, base * (2**attempt))
    return nominal * (0.5 + jitter())
