"""The cleanup of staging: objects of attempts that were given up a week ago; and due purges."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from trace_core import bootstrap
from trace_core.tasks.staging import StagingCleanup, StagingReport
from trace_core.telemetry import Telemetry

BATCH = 100
BUDGET_SECONDS = 45.0

telemetry = Telemetry("staging_cleanup")


@telemetry.observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    app = bootstrap.app()
    report = _drain(app.staging_cleanup)
    telemetry.count("StagingObjectsDeleted", report.deleted)
    purged = app.purges.run_once()
    telemetry.gauge("PurgesOverdue", app.purges.overdue())
    return {**asdict(report), "versions_purged": purged.purged}


def _drain(cleanup: StagingCleanup) -> StagingReport:
    """Pass after pass until one finds less than it could take, or the time is up."""
    ends_at = time.monotonic() + BUDGET_SECONDS
    total: Counter[str] = Counter()
    while True:
        found = asdict(cleanup.run_once(BATCH))
        total.update(found)
        if found["attempts"] < BATCH or time.monotonic() >= ends_at:
            return StagingReport(**total)
