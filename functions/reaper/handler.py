"""The reaper, and once for each run of it the figures of the whole backlog."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from trace_core import bootstrap
from trace_core.tasks.reaper import Reaper, ReapReport
from trace_core.telemetry import Telemetry, backlog_figures

BATCH = 500
BUDGET_SECONDS = 45.0

telemetry = Telemetry("reaper")


@telemetry.observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    app = bootstrap.app()
    report = _drain(app.reaper)
    telemetry.count("TasksReaped", report.reaped)
    telemetry.count("ReservationsLapsed", report.lapsed)
    telemetry.count("TaskRetries", report.retried)
    telemetry.count("TasksFailed", report.failed)
    for name, value in backlog_figures(app.views.backlog(), app.clock.now()).items():
        telemetry.gauge(name, value)
    return asdict(report)


def _drain(reaper: Reaper) -> ReapReport:
    """Pass after pass until one finds less than it could take, or the time is up."""
    ends_at = time.monotonic() + BUDGET_SECONDS
    total: Counter[str] = Counter()
    while True:
        found = asdict(reaper.run_once(BATCH))
        total.update(found)
        if found["reaped"] < BATCH or time.monotonic() >= ends_at:
            return ReapReport(**total)
