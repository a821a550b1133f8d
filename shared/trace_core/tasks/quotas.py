"""Quotas: how much an org may run at once and start in an hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel import limits
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.announcements import RUNTIMES
from trace_core.tasks.statements import SQL


class Quotas:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def counters(self, org_id: OrgId) -> list[dict[str, Any]]:
        """The org's quota first, then what its DAGs say: worker pools and concurrencies."""
        params = {"org_id": org_id, "now": self._clock.now()}
        return [row._asdict() for row in self._state.read(SQL["list_counters"], params)]

    def set_quota(
        self,
        org_id: OrgId,
        actor: Actor,
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
            tx.all(SQL["lock_jobs"], params)
            tx.all(SQL["lock_counters"], params)
            row = tx.one(SQL["set_quota"], params)
            params["capacity_id"] = row.capacity_id if row else None
            jobs = [each.job_id for each in tx.all(SQL["meter_jobs"], params)]
            tx.run(SQL["adopt_leases"], params | {"job_ids": jobs})
            self._audit.record(
                tx, org_id, actor, "quota.set", "org",
                max_running=max_running, reserved_for_live=reserved_for_live,
                max_starts_hourly=max_starts_hourly,
            )  # fmt: skip
            woke = self._wake_waiting(tx, org_id)
        # Claims that were under way meanwhile count too; the reaper finds what this one misses.
        adopt_strays(self._state)
        if woke:
            self._waker.wake(Function.OUTBOX_RELAY)

    def clear_quota(self, org_id: OrgId, actor: Actor) -> bool:
        """Whether there was one. What other counters hold, they go on holding."""
        params = {"org_id": org_id}
        with self._state.transaction("clear_quota") as tx:
            tx.one(SQL["lock_org"], params)
            tx.run(SQL["unmeter_jobs"], params)
            cleared = bool(tx.all(SQL["delete_quota"], params))
            if cleared:
                self._audit.record(tx, org_id, actor, "quota.clear", "org")
            woke = cleared and self._wake_waiting(tx, org_id)
        if woke:
            self._waker.wake(Function.OUTBOX_RELAY)
        return cleared

    def _wake_waiting(self, tx: Transaction, org_id: OrgId) -> bool:
        return bool(
            tx.all(
                SQL["wake_org"],
                {
                    "org_id": org_id,
                    "outbox_ids": self._ids.many(RUNTIMES),
                    "wake_fanout": limits.WAKE_FANOUT,
                    "now": self._clock.now(),
                },
            )
        )


def adopt_strays(state: StateDatabase, limit: int = 1000) -> None:
    """Charge leases to the counters that came to meter their jobs while they were claimed."""
    state.write("adopt_strays", SQL["adopt_strays"], {"limit": limit})


def recount(tx: Transaction, capacity_ids: Sequence[UUID]) -> None:
    """Make counters say what is held of the jobs that they meter now."""
    params = {"capacity_ids": Uuids(capacity_ids)}
    tx.all(SQL["lock_to_recount"], params)
    tx.run(SQL["recount"], params)


def recount_drifted(state: StateDatabase) -> None:
    """Counters that a task's end could not reach, since its job was given them at that moment."""
    if drifted := [row.capacity_id for row in state.read(SQL["drifted"], {})]:
        with state.transaction("reap") as tx:
            recount(tx, drifted)
