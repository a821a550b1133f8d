"""Slots of worker pools: what each took of its upstreams, and which are in quarantine.

A slot whose attempts end by its provider's fault several times in a row is kept from work for a
time that grows. Work goes on with the others; when all are in quarantine, the one that is due first
is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import SYSTEM, Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.announcements import RUNTIMES
from trace_core.tasks.api import Completion
from trace_core.tasks.statements import SQL

logger = logging.getLogger(__name__)
_UPSTREAM = "_UPSTREAM"


class Slots:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker,
        rules: limits.Quarantine = limits.DEFAULT_QUARANTINE,
    ) -> None:  # fmt: skip
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._rules = rules
        self._audit = Audit(state, clock, ids)

    def report(self, org_id: OrgId, completions: Sequence[Completion]) -> int:
        """Count what these attempts took, before they end; how many slots went into quarantine."""
        found = [c for c in completions if c.egress is not None]
        if not found:
            return 0
        usages = [c.egress for c in found if c.egress is not None]
        params: dict[str, Any] = {
            "org_id": org_id,
            "now": self._clock.now(),
            "limit": self._rules.failures,
            "base": self._rules.base,
            "cap": self._rules.cap,
            "task_ids": Uuids([c.task_id for c in found]),
            "attempts": Bigints([c.attempt for c in found]),
            "lease_tokens": Uuids([c.lease_token for c in found]),
            "requests": Bigints([each.requests for each in usages]),
            "retries": Bigints([each.retries for each in usages]),
            "rate_limited": Bigints([each.rate_limited for each in usages]),
            "errors": Bigints([each.errors for each in usages]),
            "bytes": Bigints([each.bytes for each in usages]),
            "latencies": Bigints([each.latency_ms for each in usages]),
            "faults": [each.fault for each in usages],
            "failed": [c.status not in ("Completed", "Yielded") for c in found],
        }
        with self._state.transaction("report_slots") as tx:
            quarantined = tx.all(SQL["report_usage"], params)
            for row in quarantined:
                self._audit.record(
                    tx, org_id, SYSTEM, "slot.quarantine", f"{row.dag}/{row.pool}/{row.slot}",
                    fault=row.fault, failures=row.failures,
                    until=row.quarantined_until.isoformat(),
                )  # fmt: skip
        for row in quarantined:
            logger.warning(
                "slot %s of pool %s of %s is in quarantine until %s: %s, %s times in a row",
                row.slot, row.pool, row.dag, row.quarantined_until.isoformat(), row.fault,
                row.failures,
            )  # fmt: skip
        return len(quarantined)

    def list(self, org_id: OrgId, dag: str | None = None) -> list[dict[str, Any]]:
        """In the order of their pools. Names of secrets and values of keys stay out."""
        params = {"org_id": org_id, "dag": dag, "now": self._clock.now()}
        found = []
        for row in self._state.read(SQL["list_slots"], params):
            fields: dict[str, Any] = row._asdict()
            env = fields.pop("env")
            named = sorted({v for k, v in env.items() if k.endswith(_UPSTREAM)})
            quarantined = bool(fields.pop("quarantined"))
            state = "quarantined" if quarantined else "held" if row.task_id else "free"
            until = fields["quarantined_until"] if quarantined else None
            found.append({**fields, "upstreams": named, "state": state, "quarantined_until": until})
        return found

    def release(self, org_id: OrgId, dag: str, pool: str, slot: str, actor: Actor) -> bool:
        """Whether it was in quarantine."""
        params = {
            "org_id": org_id, "dag": dag, "pool": pool, "slot": slot, "now": self._clock.now(),
        }  # fmt: skip
        with self._state.transaction("release_slot") as tx:
            row = tx.one(SQL["find_slot"], params)
            if row is None:
                raise NotFound(f"pool {pool} of DAG {dag} has no slot {slot}")
            if not row.quarantined:
                return False
            tx.run(SQL["release_slot"], {"slot_id": row.slot_id})
            self._audit.record(tx, org_id, actor, "slot.release", f"{dag}/{pool}/{slot}")
            woken = tx.all(
                SQL["wake_org"],
                {
                    "org_id": org_id,
                    "outbox_ids": self._ids.many(RUNTIMES),
                    "wake_fanout": limits.WAKE_FANOUT,
                    "now": self._clock.now(),
                },
            )
        if woken:
            self._waker.wake(Function.OUTBOX_RELAY)
        return True
