"""Quotas: how much an org may run at once and start in an hour."""

from __future__ import annotations

from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids, OrgId
from trace_core.tasks.statements import SQL


class Quotas:
    def __init__(self, state: StateDatabase, ids: Ids) -> None:
        self._state = state
        self._ids = ids

    def set_quota(
        self,
        org_id: OrgId,
        *,
        max_running: int | None,
        reserved_for_live: int,
        max_starts_hourly: int | None,
    ) -> None:
        """None is no limit. What runs already counts from now on, but is not stopped."""
        params = {
            "org_id": org_id,
            "capacity_id": self._ids.uuid(),
            "max_running": max_running,
            "reserved_for_live": reserved_for_live,
            "max_starts_hourly": max_starts_hourly,
        }
        with self._state.transaction("set_quota") as tx:
            tx.one(SQL["lock_org"], params)
            row = tx.one(SQL["set_quota"], params)
            params["capacity_id"] = row.capacity_id if row else None
            jobs = [each.job_id for each in tx.all(SQL["meter_jobs"], params)]
            tx.run(SQL["adopt_leases"], params | {"job_ids": jobs})
