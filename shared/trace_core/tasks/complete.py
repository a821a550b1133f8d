"""Complete: finish attempts, accept their last events, and let the next tasks begin.

Plain completions go through one set-based statement. Whatever that statement does not match, and
everything rarer (failures, yields, outputs, operator state, late and repeated reports), is decided
one by one in a short transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.state import Params, Row, StateDatabase, Transaction
from trace_core.kernel import limits
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.errors import (
    Conflict,
    Invalid,
    NotFound,
    OutcomeDiffers,
    StaleAttempt,
    TaskCanceled,
    TraceError,
)
from trace_core.kernel.ids import Ids, OrgId, TaskId, uuid_of
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.api import Completion
from trace_core.tasks.attempt_ends import LeaseEnd, end_leases
from trace_core.tasks.events import RUNTIMES, ForeignOutput, event_params
from trace_core.tasks.model import (
    NEVER,
    AttemptRules,
    Outcome,
    end_attempt,
    is_own_location,
    staging_prefix,
)
from trace_core.tasks.schedule import next_tick
from trace_core.tasks.statements import SQL
from trace_core.tasks.yields import is_repeated_yield, keep_yield

Write = Callable[[str, str, Params], list[Row]]


@dataclass(frozen=True)
class CompletionResult:
    task_id: TaskId
    status: str | None
    """What the report came to; None when it was refused."""
    error: TraceError | None = None


class ForeignLocation(Invalid):
    """An output lies outside the prefix that this attempt may write."""

    code = "ForeignLocation"


class StateMoved(Conflict):
    """The operator state was changed by another task; run again with what it is now."""

    code = "StateMoved"


def body_digest(c: Completion) -> UUID:
    """The same for the same body, whatever the order of its fields on the wire."""
    if c.outputs or c.state or c.triggers_taken or c.status != "Completed":
        body = c.model_dump_json().encode()
    else:
        # The common case by hand: it says the same at a third of the cost.
        events = ";".join(
            f"{e.dataset_uuid.int:x},{e.dataset_version.int:x},{e.scope_key},{e.start},{e.end},"
            f"{e.revision}"
            for e in c.events
        )
        body = f"{c.resume_after_seconds}|{c.error_code!r}|{c.error_message!r}|{events}".encode()
    return uuid_of(int.from_bytes(hashlib.blake2b(body, digest_size=16).digest(), "big"))


class Completions:
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
            with self._state.transaction("complete_one") as tx:
                status, woke = self._report(tx, org_id, completion)
        except (Conflict, Invalid, NotFound) as error:
            return CompletionResult(task_id, None, error)
        if woke:
            self.wake_relay()
        return CompletionResult(task_id, status)

    def _report(self, tx: Transaction, org_id: OrgId, c: Completion) -> tuple[str, bool]:
        lease = tx.one(SQL["lock_lease"], {"org_id": org_id, "task_id": c.task_id})
        if (
            lease is not None
            and lease.started_at is not None
            and (lease.attempt, lease.lease_token) == (c.attempt, c.lease_token)
        ):
            return self._end_running(tx, org_id, c, lease)
        return self._late_or_repeated(tx, org_id, c)

    def _end_running(
        self, tx: Transaction, org_id: OrgId, c: Completion, lease: Row
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
        if (c.status == "Yielded") != is_source:
            raise Invalid("A source yields, every other task completes.", task_id=str(c.task_id))
        woke = self._write_results(tx, org_id, c, lease.job_id, lease.lease_sequence, now)
        if c.status == "Completed":
            end = self._end(lease, Outcome.COMPLETED, None, digest)
        else:
            end = self._yield(tx, c, lease, digest, now)
        return c.status, end_leases(tx, org_id, [end], now=now, ids=self._ids) or woke

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
        tx.one(SQL["lock_source"], {"job_id": lease.job_id})
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

    def _write_results(
        self,
        tx: Transaction,
        org_id: OrgId,
        c: Completion,
        job_id: UUID,
        lease_sequence: int,
        now: datetime,
    ) -> bool:
        """Outputs, state and events of a fence that the caller has verified and holds."""
        if c.outputs:
            self._add_outputs(tx, org_id, c, job_id, lease_sequence)
        if c.state:
            put_state(tx, job_id, [(e.key, e.revision, e.value) for e in c.state], now)
        if not c.events:
            return False
        row = tx.one(
            SQL["accept_verified"],
            {
                **event_params(c.events, self._ids),
                "org_id": org_id,
                "task_id": c.task_id,
                "job_id": job_id,
                "attempt": c.attempt,
                "now": now,
                "outbox_ids": self._ids.many(RUNTIMES),
                "wake_fanout": limits.WAKE_FANOUT,
            },
        )
        if row is None or row.refused:
            raise ForeignOutput(task_id=str(c.task_id))
        return bool(row.woken)

    @staticmethod
    def _add_outputs(
        tx: Transaction, org_id: OrgId, c: Completion, job_id: UUID, lease_sequence: int
    ) -> None:
        produced = {
            (row.output_index, row.dataset_uuid, row.dataset_version)
            for row in tx.all(SQL["outputs_of_job"], {"job_id": job_id})
        }
        for output in c.outputs:
            identity = (output.output_index, output.dataset_uuid, output.dataset_version)
            if identity not in produced:
                raise ForeignOutput(task_id=str(c.task_id), output_index=output.output_index)
            prefix = staging_prefix(
                org_id, output.dataset_uuid, output.dataset_version, c.task_id, c.attempt,
                lease_sequence, output.output_index,
            )  # fmt: skip
            if not is_own_location(output.location, prefix, output.dataset_uuid):
                raise ForeignLocation(task_id=str(c.task_id), output_index=output.output_index)
        tx.run(
            SQL["add_outputs"],
            {
                "task_id": c.task_id,
                "attempt": c.attempt,
                "lease_sequence": lease_sequence,
                "output_indexes": [output.output_index for output in c.outputs],
                "scopes": [output.scope.key for output in c.outputs],
                "versions": [output.dataset_version for output in c.outputs],
                "locations": [output.location for output in c.outputs],
                "row_counts": [output.row_count for output in c.outputs],
            },
        )

    def _late_or_repeated(self, tx: Transaction, org_id: OrgId, c: Completion) -> tuple[str, bool]:
        params = {
            "org_id": org_id,
            "task_id": c.task_id,
            "attempt": c.attempt,
            "lease_token": c.lease_token,
            "digest": body_digest(c),
            "now": self._clock.now(),
            "error_code": c.error_code,
            "error_message": (c.error_message or "")[-limits.ERROR_MESSAGE_MAX :] or None,
            "release_outbox_ids": self._ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        }
        task = tx.one(SQL["task_of_org"], params)
        if task is None:
            raise NotFound(task_id=str(c.task_id))
        params |= {"job_id": task.job_id, "priority": task.priority}
        ended = tx.one(SQL["attempt_of_fence"], params)
        if ended is None or ended.lease_token != c.lease_token:
            if is_repeated_yield(tx, c.fence, body_digest(c)):
                return "Yielded", False
            raise StaleAttempt(task_id=str(c.task_id))
        if ended.body_digest == params["digest"]:
            return ended.outcome, False
        if ended.outcome == Outcome.CANCELED:
            if c.status == "Canceled":
                return "Canceled", False
            raise TaskCanceled(task_id=str(c.task_id))
        if task.of_source and c.status != "Failed":
            # A slice that was given up leaves its work to the next one, which begins anew.
            raise StaleAttempt(task_id=str(c.task_id))
        if ended.body_digest is not None or c.status not in ("Completed", "Failed"):
            raise OutcomeDiffers(task_id=str(c.task_id), outcome=ended.outcome)
        if c.status == "Failed":
            waiting = tx.one(SQL["waiting_fence"], params)
            kept = waiting.lease_token == c.lease_token if waiting is not None else False
            if not (ended.final or kept or tx.one(SQL["fenced_lease"], params)):
                raise StaleAttempt(task_id=str(c.task_id))
            tx.run(SQL["note_late_failure"], params)
            return ended.outcome, False
        return self._complete_late(tx, org_id, c, params, was_final=ended.final, ended=ended)

    def _complete_late(
        self,
        tx: Transaction,
        org_id: OrgId,
        c: Completion,
        params: dict[str, object],
        *,
        was_final: bool,
        ended: Row,
    ) -> tuple[str, bool]:
        taken = tx.all(SQL["take_back"], params)
        waited = any(row.task_id is not None for row in taken)
        if not was_final and not waited and not tx.all(SQL["reopen_lapsed"], params):
            # A newer attempt has started: it is the one that counts.
            raise StaleAttempt(task_id=str(c.task_id))
        if not tx.all(SQL["complete_late"], params):
            raise StaleAttempt(task_id=str(c.task_id))
        woke = self._write_results(
            tx, org_id, c, ended.job_id, ended.lease_sequence, self._clock.now()
        )
        return "Completed", woke or any(row.woke for row in taken)


def is_plain(completion: Completion) -> bool:
    """What the set-based statement can do: a success with nothing but events."""
    return completion.status == "Completed" and not (completion.outputs or completion.state)


def put_state(
    tx: Transaction, job_id: UUID, entries: Sequence[tuple[str, int, object]], now: datetime
) -> None:
    """Compare and set each key, or raise `StateMoved` with nothing written."""
    values = [json.dumps(value, separators=(",", ":")) for _, _, value in entries]
    if sum(map(len, values)) > limits.OPERATOR_STATE_MAX:
        raise Invalid("The operator state of one task is over 1 MiB.")
    written = tx.all(
        SQL["put_state"],
        {
            "job_id": job_id,
            "keys": [key for key, _, _ in entries],
            "revisions": [revision for _, revision, _ in entries],
            "values": values,
            "now": now,
        },
    )
    if len(written) != len(entries):
        raise StateMoved(job_id=str(job_id))
