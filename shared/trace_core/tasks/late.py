"""Reports that come late or again: of attempts that were given up, or whose end is known already.

A late completion counts until a newer attempt has started. The same body again is the same outcome.
"""

from __future__ import annotations

from trace_core.database.state import Row, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound, OutcomeDiffers, StaleAttempt, TaskCanceled
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.tasks.announcements import RUNTIMES
from trace_core.tasks.api import Completion
from trace_core.tasks.model import Outcome
from trace_core.tasks.outputs import Prepared
from trace_core.tasks.results import Results, body_digest
from trace_core.tasks.statements import SQL
from trace_core.tasks.yields import is_repeated_yield


class LateReports:
    def __init__(self, clock: Clock, ids: Ids, results: Results) -> None:
        self._clock = clock
        self._ids = ids
        self._results = results

    def report(
        self, tx: Transaction, org_id: OrgId, c: Completion, prepared: Prepared
    ) -> tuple[str, bool]:
        """The status that the report comes to, and whether to wake the relay after the commit."""
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
        if ended.closed_at is not None:
            raise StaleAttempt(
                "The attempt was given up so long ago that what it wrote is deleted.",
                task_id=str(c.task_id),
            )
        if ended.body_digest is not None or c.status not in ("Completed", "Failed", "Superseded"):
            raise OutcomeDiffers(task_id=str(c.task_id), outcome=ended.outcome)
        if c.status != "Completed":
            waiting = tx.one(SQL["waiting_fence"], params)
            kept = waiting.lease_token == c.lease_token if waiting is not None else False
            if not (ended.final or kept or tx.one(SQL["fenced_lease"], params)):
                raise StaleAttempt(task_id=str(c.task_id))
            tx.run(SQL["note_late_failure"], params)
            return ended.outcome, False
        return self._complete(tx, org_id, c, params, ended, prepared)

    def _complete(
        self,
        tx: Transaction,
        org_id: OrgId,
        c: Completion,
        params: dict[str, object],
        ended: Row,
        prepared: Prepared,
    ) -> tuple[str, bool]:
        taken = tx.all(SQL["take_back"], params)
        waited = any(row.task_id is not None for row in taken)
        if not ended.final and not waited and not tx.all(SQL["reopen_lapsed"], params):
            # A newer attempt has started: it is the one that counts.
            raise StaleAttempt(task_id=str(c.task_id))
        if not tx.all(SQL["complete_late"], params):
            raise StaleAttempt(task_id=str(c.task_id))
        written = self._results.write(
            tx, org_id, c, ended.job_id, ended.lease_sequence, self._clock.now(), prepared
        )
        return "Completed", written.woke or any(row.woke for row in taken)
