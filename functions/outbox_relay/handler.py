"""The outbox relay: pushed after each commit that leaves work, and on a schedule as a sweep."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from trace_core import bootstrap
from trace_core.telemetry import Telemetry

BUDGET = timedelta(seconds=45)

telemetry = Telemetry("outbox_relay")


@telemetry.observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    report = bootstrap.app().relay.run_until_idle(BUDGET)
    telemetry.count("OutboxSent", report.sent)
    telemetry.count("OutboxRetries", report.postponed)
    telemetry.count("OutboxGivenUp", report.failed)
    return asdict(report)
