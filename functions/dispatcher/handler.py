"""The Dispatcher: control work, due retries, and the sweep of what a lost push left behind."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from trace_core import bootstrap
from trace_core.telemetry import Telemetry

BUDGET = timedelta(seconds=45)

telemetry = Telemetry("dispatcher")


@telemetry.observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    app = bootstrap.app()
    report = asdict(app.dispatcher.run_until_idle(BUDGET))
    for name, value in report.items():
        telemetry.count(f"Dispatcher{name.title().replace('_', '')}", value)
    telemetry.gauge("HistoryMonthsAhead", app.history.months_ahead())
    return report
