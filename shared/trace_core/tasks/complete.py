"""Complete: finish attempts, accept their last events, and let the next tasks begin.

Plain completions go through one set-based statement. Whatever that statement does not match, and
everything rarer (failures, yields, outputs, operator state, late and repeated reports), is decided
one by one in a short transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.state import Params, Row, StateDatabase, Transaction
from trace_core.kernel import limits
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.errors import Conflict, Invalid, Rejected, TaskCanceled, TraceError
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.announcements import RUNTIMES, event_params
from trace_core.tasks.api import Completion
from trace_core.tasks.attempt_ends import LeaseEnd, end_leases
from trace_core.tasks.late import LateReports
from trace_core.tasks.model import NEVER, AttemptRules, Outcome, end_attempt
from trace_core.tasks.outputs import Prepared, ReadManifest, ReadRecords
from trace_core.tasks.results import Results, body_digest
from trace_core.tasks.schedule import next_tick
from trace_core.tasks.statements import SQL
from trace_core.tasks.yields import keep_yield

Write = Callable[[str, str, Params], list[Row]]


@dataclass(frozen=True)
class CompletionResult:
    task_id: TaskId
    status: str | None
    """What the report came to; None when it was refused."""
    error: TraceError | None = None


class Completions:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        jitter: Jitter,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
        read_manifest: ReadManifest | None = None,
        read_records: ReadRecords | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._jitter = jitter
        self._timings = timings
        self._results = Results(state, ids, read_manifest, read_records)
        self._late = LateReports(clock, ids, self._results)

    def complete(self, org_id: OrgId, completions: Sequence[Completion]) -> list[CompletionResult]:
        """Each report stands for itself: one that is refused does not hold back the others."""
        # A task that is reported twice in one call: the first report goes first.
        plain: dict[UUID, Completion] = {}
        for c in completions:
            if is_plain(c):
                plain.setdefault(c.task_id, c)
        done, woke = self._complete_plain(self._state.write, org_id, list(plain.values()))
        if woke:
            self.wake_relay()
        return [
            CompletionResult(TaskId(c.task_id), "Completed")
            if c.task_id in done and plain.get(c.task_id) is c
            else self._complete_one(org_id, c)
            for c in completions
        ]

    def complete_in(
        self, tx: Transaction, org_id: OrgId, completions: Sequence[Completion]
    ) -> tuple[set[UUID], bool]:
        """Plain completions as a part of the caller's transaction: those that matched, and whether
        to wake the relay once it has committed.
        """

        def write(_name: str, sql: str, params: Params) -> list[Row]:
            return tx.all(sql, params)

        return self._complete_plain(write, org_id, completions)

    def wake_relay(self) -> None:
        self._waker.wake(Function.OUTBOX_RELAY)

    def _complete_plain(
        self, write: Write, org_id: OrgId, completions: Sequence[Completion]
    ) -> tuple[set[UUID], bool]:
        """First what holds no capacity, which is the common case, then what does."""
        done: set[UUID] = set()
        woke = False
        for metered in (False, True):
            # In the order of ids, so that two batches never lock the same leases crosswise.
            left = sorted(
                (c for c in completions if c.task_id not in done), key=lambda c: c.task_id.int
            )
            if not left:
                break
            rows = self._complete_batch(write, org_id, left, metered=metered)
            woke |= any(row.woke for row in rows)
            done |= {row.task_id for row in rows if row.task_id is not None}
        return done, woke

    def _complete_batch(
        self, write: Write, org_id: OrgId, completions: Sequence[Completion], *, metered: bool
    ) -> list[Row]:
        name = "complete_metered" if metered else "complete"
        params = {
            **event_params([event for c in completions for event in c.events], self._ids),
            "event_task_ids": Uuids([c.task_id for c in completions for _ in c.events]),
            "org_id": org_id,
            "now": self._clock.now(),
            "metered": metered,
            "task_ids": Uuids([c.task_id for c in completions]),
            "attempts": Bigints([c.attempt for c in completions]),
            "lease_tokens": Uuids([c.lease_token for c in completions]),
            "digests": Uuids([body_digest(c) for c in completions]),
            "outbox_ids": Uuids(self._ids.many(RUNTIMES)),
            "release_outbox_ids": Uuids(self._ids.many(RUNTIMES)),
            "wake_fanout": limits.WAKE_FANOUT,
        }
        return write(name, SQL[name], params)

    def _complete_one(self, org_id: OrgId, completion: Completion) -> CompletionResult:
        task_id = TaskId(completion.task_id)
        try:
            prepared = self._results.prepare(org_id, completion)
            with self._state.transaction("complete_one") as tx:
                status, woke = self._report(tx, org_id, completion, prepared)
        except (Conflict, Rejected) as error:
            return CompletionResult(task_id, None, error)
        if woke:
            self.wake_relay()
        return CompletionResult(task_id, status)

    def _report(
        self, tx: Transaction, org_id: OrgId, c: Completion, prepared: Prepared
    ) -> tuple[str, bool]:
        lease = tx.one(SQL["lock_lease"], {"org_id": org_id, "task_id": c.task_id})
        if (
            lease is not None
            and lease.started_at is not None
            and (lease.attempt, lease.lease_token) == (c.attempt, c.lease_token)
        ):
            return self._end_running(tx, org_id, c, lease, prepared)
        return self._late.report(tx, org_id, c, prepared)

    def _end_running(
        self, tx: Transaction, org_id: OrgId, c: Completion, lease: Row, prepared: Prepared
    ) -> tuple[str, bool]:
        now = self._clock.now()
        digest = body_digest(c)
        is_source = lease.activation == "source"
        if lease.canceled_at is not None or c.status == "Canceled":
            if c.status != "Canceled":
                raise TaskCanceled(task_id=str(c.task_id))
            if lease.canceled_at is None:
                raise Conflict("The task is not canceled.", task_id=str(c.task_id))
            end = self._end(lease, Outcome.CANCELED, None, digest)
            return "Canceled", end_leases(tx, org_id, [end], now=now, ids=self._ids)
        if c.status == "Failed":
            return "Failed", self._fail(tx, org_id, c, lease, now)
        if c.status == "Superseded" and not is_source:
            # At once and with fresh inputs; what failed before still counts, and this does not.
            end = self._end(lease, Outcome.SUPERSEDED, now, digest, failures=lease.failures)
            return "Superseded", end_leases(tx, org_id, [end], now=now, ids=self._ids)
        if (c.status == "Yielded") != is_source:
            raise Invalid("A source yields, every other task completes.", task_id=str(c.task_id))
        if is_source:
            # Before any counter, as everybody locks them who needs both.
            tx.one(SQL["lock_source"], {"job_id": lease.job_id})
        written = self._results.write(
            tx, org_id, c, lease.job_id, lease.lease_sequence, now, prepared
        )
        if c.status == "Completed":
            end = self._end(lease, Outcome.COMPLETED, None, digest)
        else:
            end = self._yield(tx, c, lease, digest, now)
        return c.status, end_leases(tx, org_id, [end], now=now, ids=self._ids) or written.woke

    @staticmethod
    def _end(
        lease: Row, outcome: Outcome, due_at: datetime | None, digest: UUID, failures: int = 0
    ) -> LeaseEnd:
        return LeaseEnd(
            lease.task_id, lease.lease_sequence, lease.attempt, outcome, due_at,
            failures=failures, body_digest=digest,
        )  # fmt: skip

    def _fail(
        self, tx: Transaction, org_id: OrgId, c: Completion, lease: Row, now: datetime
    ) -> bool:
        failures = lease.failures + 1
        rules = AttemptRules(lease.activation == "source", lease.max_attempts)
        ended = end_attempt(
            Outcome.FAILED,
            failures=failures,
            rules=rules,
            retryable=c.retryable,
            now=now,
            jitter=self._jitter,
            timings=self._timings,
        )
        message = (c.error_message or "")[-limits.ERROR_MESSAGE_MAX :] or None
        end = LeaseEnd(
            lease.task_id, lease.lease_sequence, lease.attempt, ended.outcome, ended.due_at,
            failures=failures, body_digest=body_digest(c), error_code=c.error_code,
            error_message=message,
        )  # fmt: skip
        return end_leases(tx, org_id, [end], now=now, ids=self._ids)

    def _yield(
        self, tx: Transaction, c: Completion, lease: Row, digest: UUID, now: datetime
    ) -> LeaseEnd:
        """The same task and attempt go on under a new lease; failures are forgotten."""
        if c.triggers_taken:
            tx.run(
                SQL["take_requests"],
                {"job_id": lease.job_id, "numbers": c.triggers_taken, "now": now},
            )
        if lease.source_kind == "always_on":
            due_at = now + timedelta(seconds=c.resume_after_seconds)
        elif lease.source_kind == "cron":
            due_at = next_tick(lease.schedule, now)
        else:
            more = tx.one(SQL["open_requests"], {"job_id": lease.job_id, "limit": 1})
            due_at = now if more else NEVER
        keep_yield(tx, lease, digest)
        return LeaseEnd(
            lease.task_id, lease.lease_sequence, None, None, due_at, continues=True,
            keeps_capacity=lease.source_kind == "always_on", body_digest=digest,
        )  # fmt: skip


def is_plain(completion: Completion) -> bool:
    """What the set-based statement can do: a success with nothing but events."""
    return completion.status == "Completed" and not (completion.outputs or completion.state)
