"""What an attempt reports with its end: outputs, state and events, and the digest of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from trace_core.database.state import Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, Invalid
from trace_core.kernel.ids import Ids, OrgId, uuid_of
from trace_core.tasks.api import Completion
from trace_core.tasks.events import RUNTIMES, ForeignOutput, event_params, with_fresh_routes
from trace_core.tasks.model import is_own_location, staging_prefix
from trace_core.tasks.statements import SQL


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


class Results:
    """Writes results under a fence that the caller has verified and holds."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    def write(
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
        params = {
            **event_params(c.events, self._ids),
            "org_id": org_id,
            "task_id": c.task_id,
            "job_id": job_id,
            "attempt": c.attempt,
            "now": now,
            "outbox_ids": self._ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        }
        row = with_fresh_routes(lambda: tx.all(SQL["accept_verified"], params)[0])
        if row.refused:
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
