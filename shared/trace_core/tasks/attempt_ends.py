"""The one way in which a lease ends, other than by plain completion: retry, yield, fail, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_core.database.state import Transaction
from trace_core.kernel import limits
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.tasks.announcements import RUNTIMES
from trace_core.tasks.model import Outcome
from trace_core.tasks.statements import SQL


@dataclass(frozen=True)
class LeaseEnd:
    """What becomes of one lease that the caller holds locked."""

    task_id: TaskId
    lease_sequence: int
    ended_attempt: int | None
    """The attempt that goes to history; None when none ended (a slice, a lapsed reservation)."""
    outcome: Outcome | None
    due_at: datetime | None
    """When the task goes on; None ends it."""
    failures: int = 0
    lapses: int = 0
    continues: bool = False
    keeps_capacity: bool = False
    body_digest: UUID | None = None
    error_code: str | None = None
    error_message: str | None = None


def end_leases(
    tx: Transaction, org_id: OrgId, ends: Sequence[LeaseEnd], *, now: datetime, ids: Ids
) -> bool:
    """Write the ends in one statement; answers whether the relay has something to do."""
    rows = tx.all(
        SQL["end_attempts"],
        {
            "org_id": org_id,
            "now": now,
            "task_ids": [end.task_id for end in ends],
            "lease_sequences": [end.lease_sequence for end in ends],
            "ended_attempts": [end.ended_attempt for end in ends],
            "outcomes": [end.outcome for end in ends],
            "due_ats": [end.due_at for end in ends],
            "failures": [end.failures for end in ends],
            "lapses": [end.lapses for end in ends],
            "continues": [end.continues for end in ends],
            "keeps": [end.keeps_capacity for end in ends],
            "digests": [end.body_digest for end in ends],
            "error_codes": [end.error_code for end in ends],
            "error_messages": [end.error_message for end in ends],
            "outbox_ids": ids.many(RUNTIMES),
            "release_outbox_ids": ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        },
    )
    return any(row.woke for row in rows)
