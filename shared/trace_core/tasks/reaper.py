"""The reaper: leases that ran out, attempts that ran too long, reservations nobody exchanged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trace_core.database.state import Row, StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.attempt_ends import LeaseEnd, end_leases
from trace_core.tasks.model import (
    AttemptRules,
    Outcome,
    end_attempt,
    expired_outcome,
    lapse_counts_as_failure,
)
from trace_core.tasks.quotas import adopt_strays, recount_drifted
from trace_core.tasks.statements import SQL


@dataclass(frozen=True)
class ReapReport:
    reaped: int = 0
    lapsed: int = 0
    retried: int = 0
    failed: int = 0
    canceled: int = 0


class Reaper:
    """Any number run at once: rows that another one holds are skipped."""

    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        jitter: Jitter,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._jitter = jitter
        self._timings = timings

    def run_once(self, limit: int = 100) -> ReapReport:
        now = self._clock.now()
        woke = False
        with self._state.transaction("reap") as tx:
            expired = tx.all(SQL["lock_expired"], {"now": now, "limit": limit})
            by_org: dict[OrgId, list[LeaseEnd]] = {}
            for lease in expired:
                by_org.setdefault(lease.org_id, []).append(self._end(lease))
            for org_id, ends in sorted(by_org.items()):
                woke |= end_leases(tx, org_id, ends, now=now, ids=self._ids)
        adopt_strays(self._state)
        recount_drifted(self._state)
        if woke:
            self._waker.wake(Function.OUTBOX_RELAY)
        return self._report([end for ends in by_org.values() for end in ends])

    def _end(self, lease: Row) -> LeaseEnd:
        now = self._clock.now()
        outcome = expired_outcome(
            now=now,
            started=lease.started_at is not None,
            canceled=lease.canceled_at is not None,
            deadline_at=lease.deadline_at,
        )
        attempt, failures = lease.attempt, lease.failures + 1
        if outcome is Outcome.LAPSED:
            if not lapse_counts_as_failure(lease.lapses + 1):
                return LeaseEnd(
                    lease.task_id, lease.lease_sequence, None, None, now,
                    failures=lease.failures, lapses=lease.lapses + 1, continues=lease.continues,
                )  # fmt: skip
            # A source that was to go on with its attempt has lapsed in that one.
            attempt += 0 if lease.continues else 1
        elif lease.started_at is None:
            attempt += 1
        ended = end_attempt(
            outcome,
            failures=failures,
            rules=AttemptRules(lease.activation == "source", lease.max_attempts),
            retryable=True,
            now=now,
            jitter=self._jitter,
            timings=self._timings,
        )
        return LeaseEnd(
            lease.task_id, lease.lease_sequence, attempt, outcome, ended.due_at,
            failures=failures, error_code=outcome.value,
        )  # fmt: skip

    @staticmethod
    def _report(ends: list[LeaseEnd]) -> ReapReport:
        kinds = Counter(
            "lapsed"
            if end.outcome is None
            else "canceled"
            if end.outcome is Outcome.CANCELED
            else "retried"
            if end.due_at
            else "failed"
            for end in ends
        )
        return ReapReport(
            len(ends), kinds["lapsed"], kinds["retried"], kinds["failed"], kinds["canceled"]
        )
