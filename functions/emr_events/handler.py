"""A state change of a Spark run, as EventBridge tells it: a reason to look now, and no more.

What the run is now is asked of the service. Events may be lost, late, doubled or out of order.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trace_core import bootstrap
from trace_core.telemetry import Telemetry

SOURCE = "aws.emr-serverless"

telemetry = Telemetry("emr_events")


@telemetry.observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    watch = bootstrap.app().spark.watch
    run_id = (event.get("detail") or {}).get("jobRunId")
    known = event.get("source") == SOURCE and isinstance(run_id, str) and watch.hurry(run_id)
    telemetry.count("SparkEventsUnknown", int(not known))
    return {"known": known, **asdict(watch.run_once())} if known else {"known": False}
