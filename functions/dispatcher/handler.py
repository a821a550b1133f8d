"""The Dispatcher: control work, due retries, and sweeps: of what a lost push left behind, and of
commits that nobody lived to report."""

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
    if app.has_spark:
        spark = app.spark.watch.figures()
        telemetry.gauge("SparkRunsOpen", spark.open)
        telemetry.gauge("SparkRunWaiting", spark.waiting_seconds)
        telemetry.gauge("SparkCancelAge", spark.cancel_seconds)
        telemetry.gauge("SparkEndAge", spark.end_seconds)
    # Last: without the data database everything else goes on.
    reconciled = app.reconciliation.run_once()
    telemetry.count("CommitsReconciled", reconciled.registered)
    telemetry.count("CommitsRefused", reconciled.refused)
    return report
