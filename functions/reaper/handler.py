"""The reaper, and once for each run of it the figures of the whole backlog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trace_core import bootstrap
from trace_core.telemetry import Telemetry, backlog_figures

telemetry = Telemetry("reaper")


@telemetry.observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    app = bootstrap.app()
    report = app.reaper.run_once(limit=1000)
    telemetry.count("TasksReaped", report.reaped)
    telemetry.count("ReservationsLapsed", report.lapsed)
    telemetry.count("TaskRetries", report.retried)
    telemetry.count("TasksFailed", report.failed)
    for name, value in backlog_figures(app.views.backlog(), app.clock.now()).items():
        telemetry.gauge(name, value)
    return asdict(report)
