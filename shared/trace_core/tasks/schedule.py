"""Cron schedules, in UTC."""

from __future__ import annotations

from datetime import datetime

from cronsim import CronSim


def next_tick(schedule: str, after: datetime) -> datetime:
    """The first tick strictly after a moment."""
    return next(CronSim(schedule, after))
