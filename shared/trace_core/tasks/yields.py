"""Accepted slices of sources, so that a yield that is reported again is known again.

A slice ends no attempt, and its lease is gone once the next slice has begun: this is the record of
its end.
"""

from __future__ import annotations

from uuid import UUID

from trace_core.database.state import Row, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import OutcomeDiffers
from trace_core.tasks.model import Fence
from trace_core.tasks.statements import SQL


def keep_yield(tx: Transaction, lease: Row, digest: UUID) -> None:
    """In the transaction that accepts the slice of this lease."""
    tx.run(
        SQL["keep_yield"],
        {
            "task_id": lease.task_id,
            "place": lease.lease_sequence % limits.YIELDS_KEPT,
            "attempt": lease.attempt,
            "lease_token": lease.lease_token,
            "body_digest": digest,
        },
    )


def is_repeated_yield(tx: Transaction, fence: Fence, digest: UUID) -> bool:
    """Whether this body was accepted under this fence; raises when it was another one."""
    params = {
        "task_id": fence.task_id,
        "attempt": fence.attempt,
        "lease_token": fence.lease_token,
    }
    kept = tx.one(SQL["kept_yield"], params)
    if kept is not None and kept.body_digest != digest:
        raise OutcomeDiffers(task_id=str(fence.task_id), outcome="Yielded")
    return kept is not None
