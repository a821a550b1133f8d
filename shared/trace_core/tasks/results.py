"""What an attempt reports with its end: outputs, state and events, and the digest of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_core.database.state import StateDatabase, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, Invalid
from trace_core.kernel.ids import Ids, OrgId, uuid_of
from trace_core.registry.commits import Lease, committed_scopes, register
from trace_core.registry.relations import lock_with_relations
from trace_core.storage.model import Backend
from trace_core.tasks.announcements import (
    RUNTIMES,
    Announced,
    Announcement,
    ForeignOutput,
    UncommittedScope,
    announce,
    event_params,
    with_fresh_routes,
)
from trace_core.tasks.api import Completion, EventIn, EventsRequest, OutputIn
from trace_core.tasks.outputs import (
    CommittedOutput,
    ForeignLocation,
    JobOutputs,
    Outputs,
    Prepared,
    ReadManifest,
    ReadRecords,
)
from trace_core.tasks.statements import SQL

__all__ = ["ForeignLocation", "Results", "StateMoved", "WrittenResult", "body_digest", "put_state"]


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


@dataclass(frozen=True)
class WrittenResult:
    accepted: int = 0
    duplicates: int = 0
    tasks_made: int = 0
    woke: bool = False
    """The relay has something to do, once the transaction has committed."""
    commits: tuple[CommittedOutput, ...] = ()


class Results:
    """Writes results under a fence that the caller has verified and holds."""

    def __init__(
        self,
        state: StateDatabase,
        ids: Ids,
        read_manifest: ReadManifest | None = None,
        read_records: ReadRecords | None = None,
    ) -> None:
        self._state = state
        self._ids = ids
        self._outputs = Outputs(state, read_manifest, read_records)

    def prepare(self, org_id: OrgId, report: Completion | EventsRequest) -> Prepared:
        """What takes its time, before the transaction opens and anything is locked."""
        if not report.outputs:
            return Prepared()
        return self._outputs.prepare(org_id, report.task_id, report.attempt, report.outputs)

    def write(
        self,
        tx: Transaction,
        org_id: OrgId,
        report: Completion | EventsRequest,
        job_id: UUID,
        lease_sequence: int,
        now: datetime,
        prepared: Prepared,
    ) -> WrittenResult:
        """Outputs, state and events of a fence that the caller has verified and holds."""
        if isinstance(report, Completion) and report.state:
            put_state(tx, job_id, [(e.key, e.revision, e.value) for e in report.state], now)
        if not report.outputs:
            if not report.events:
                return WrittenResult()
            row = self._accept(tx, org_id, report, job_id, report.events, now)
            if row is not None:
                return row
        return self._write_outputs(tx, org_id, report, job_id, lease_sequence, now, prepared)

    def _accept(
        self,
        tx: Transaction,
        org_id: OrgId,
        report: Completion | EventsRequest,
        job_id: UUID,
        events: Sequence[EventIn],
        now: datetime,
    ) -> WrittenResult | None:
        """Events without rows behind them; None when some are not such."""
        params = {
            **event_params(events, self._ids),
            "org_id": org_id,
            "task_id": report.task_id,
            "job_id": job_id,
            "attempt": report.attempt,
            "now": now,
            "outbox_ids": self._ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        }
        row = with_fresh_routes(lambda: tx.all(SQL["accept_verified"], params)[0])
        if row.refused:
            return None
        return WrittenResult(
            row.accepted, len(events) - row.accepted, row.tasks_made, bool(row.woken)
        )

    def _write_outputs(
        self,
        tx: Transaction,
        org_id: OrgId,
        report: Completion | EventsRequest,
        job_id: UUID,
        lease_sequence: int,
        now: datetime,
        prepared: Prepared,
    ) -> WrittenResult:
        """All outputs are registered and announced together, with the events that came along."""
        lease = Lease(report.task_id, report.attempt, lease_sequence)
        produced = JobOutputs.read(tx, job_id)
        with_rows = self._outputs.written(org_id, lease, report.outputs, produced, prepared)
        if report.outputs:
            _add_outputs(tx, lease, report.outputs)
        own = {(output.dataset_version, output.scope_key) for output, _ in with_rows}
        plain = _without_rows(tx, report, produced, own)
        # All counters at once, in the order of ids, whatever they are needed for.
        versions, relations = lock_with_relations(
            tx,
            [written.dataset_version for _, written in with_rows]
            + [event.dataset_version for event in plain],
        )
        registered = register(tx, versions, [written for _, written in with_rows], now, relations)
        self._state.crash_points("results:registered")
        announced = announce(
            tx, self._ids, org_id, [Announcement.of(each) for each in registered.readable], now
        )
        self._state.crash_points("results:announced")
        accepted = self._accept(tx, org_id, report, job_id, plain, now) if plain else None
        merged = len(report.events) - len(plain)
        return _sum(
            announced,
            accepted or WrittenResult(),
            merged,
            tuple(
                CommittedOutput(output.output_index, output.dataset_version, output.scope, number)
                for (output, _), number in zip(with_rows, registered.numbers, strict=True)
            ),
        )


def _without_rows(
    tx: Transaction,
    report: Completion | EventsRequest,
    produced: JobOutputs,
    own: set[tuple[UUID, str]],
) -> list[EventIn]:
    """The events of outputs that are announcements only; those with rows are told by commits."""
    plain, others = [], []
    for event in report.events:
        backend = produced.backend(event.dataset_uuid, event.dataset_version)
        if backend is None:
            raise ForeignOutput(task_id=str(report.task_id))
        if backend is Backend.CONTROL:
            plain.append(event)
        elif (event.dataset_version, event.scope_key) not in own:
            others.append(event)
    if others:
        wanted = [(event.dataset_version, event.scope_key) for event in others]
        known = committed_scopes(tx, report.task_id, wanted)
        for event in others:
            if (event.dataset_version, event.scope_key) not in known:
                raise UncommittedScope(
                    dataset_version=str(event.dataset_version), scope=event.scope.fields()
                )
    return plain


def _sum(
    announced: Announced,
    accepted: WrittenResult,
    merged: int,
    commits: tuple[CommittedOutput, ...],
) -> WrittenResult:
    return WrittenResult(
        announced.accepted + accepted.accepted,
        accepted.duplicates + merged,
        announced.tasks_made + accepted.tasks_made,
        announced.woke or accepted.woke,
        commits,
    )


def _add_outputs(tx: Transaction, lease: Lease, outputs: Sequence[OutputIn]) -> None:
    tx.run(
        SQL["add_outputs"],
        {
            "task_id": lease.task_id,
            "attempt": lease.attempt,
            "lease_sequence": lease.lease_sequence,
            "output_indexes": [output.output_index for output in outputs],
            "scopes": [output.scope_key for output in outputs],
            "versions": [output.dataset_version for output in outputs],
            "locations": [output.location for output in outputs],
            "row_counts": [output.row_count for output in outputs],
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
