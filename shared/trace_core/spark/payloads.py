"""The payload of a run as the platform has it; the run itself gets less, and no token."""

from __future__ import annotations

from typing import Any

from trace_core.database.state import Row
from trace_core.spark.model import SparkRun
from trace_core.spark.store import RunStore
from trace_core.tasks.claim import claimed_from
from trace_core.tasks.payload import Payloads


class RunPayloads:
    def __init__(self, store: RunStore, payloads: Payloads) -> None:
        self._store = store
        self._payloads = payloads

    def of(self, run: SparkRun, lease: Row | None = None) -> dict[str, Any]:
        """With the pins that were fixed when the run was prepared."""
        begun = run.started_at or run.prepared_at
        claim = claimed_from(
            self._store.trigger(run),
            run.org_id,
            started_at=begun,
            lease_expires_at=begun + run.timeout,
        )
        (payload,) = self._payloads.build([claim])
        if lease is not None:
            payload["lease_token"] = str(lease.lease_token)
        return payload
