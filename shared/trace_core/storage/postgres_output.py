"""Postgres outputs: the data transaction is the commit.

State and data are two databases. An attempt first advances its fence here, so that whoever had the
task before can write no more; then it writes all its outputs in one transaction, together with a
record from which anybody can report them to the state database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.data import DataDatabase, DataTransaction
from trace_core.database.postgres import Row, as_json
from trace_core.kernel.errors import Fenced, Invalid, NotFound, OutcomeDiffers
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.storage.commits import (
    Committed,
    DataCommit,
    DataFence,
    RecordedCommit,
    RowsOutput,
    Unregistered,
)
from trace_core.storage.errors import CursorMoved
from trace_core.storage.model import Pin
from trace_core.storage.row_writes import STATEMENTS, Batches, write_rows
from trace_core.storage.rows import check_cursors, check_keys, conformed
from trace_core.storage.versions import VersionTable, version_of

_SQL = STATEMENTS
_FIRST = UUID(int=0)
_BOUND_MAX = 2**62


class PostgresOutput:
    """Writes under a fence; needs the rights of the writer only."""

    def __init__(self, data: DataDatabase, clock: Clock) -> None:
        self._data = data
        self._clock = clock

    def advance_fence(self, task_id: TaskId, attempt: int, lease_sequence: int) -> DataFence:
        """Take over from earlier attempts and leases, before reading cursor, record or inputs."""
        given = {"task_id": task_id, "attempt": attempt, "lease_sequence": lease_sequence}
        rows = self._data.write("advance_fence", _SQL["advance_fence"], given)
        if not rows:
            raise Fenced(task_id=str(task_id), attempt=attempt, lease_sequence=lease_sequence)
        return DataFence(task_id, rows[0].epoch, rows[0].attempt, rows[0].lease_sequence)

    def raise_epoch(self) -> int:
        """After a restore: every fence from before is void, even if its attempt looks newer."""
        with self._data.transaction("raise_epoch") as tx:
            tx.run(_SQL["lock_epoch"], {})
            row = tx.one(_SQL["raise_epoch"], {})
            return int(row.epoch) if row else 0

    def read_cursor(self, task_id: TaskId) -> Any:
        """How far a source has come; None before its first slice."""
        rows = self._data.read(_SQL["read_cursor"], {"task_id": task_id})
        return rows[0].value if rows else None

    def find_records(self, task_id: TaskId) -> Committed | None:
        """The newest data transaction of a task. A reactive task that finds one reports it
        instead of running again."""
        with self._data.transaction("find_records") as tx:
            row = tx.one(_SQL["last_completion"], {"task_id": task_id})
            if row is None:
                return None
            fence = DataFence(task_id, row.epoch, row.attempt, row.lease_sequence)
            commits = _recorded(tx, fence, row.step)
            return Committed(fence, row.step, commits, row.body, repeated=True)

    def commit(self, write: DataCommit) -> Committed:
        """All outputs in one transaction, or none. The same call again gives the same answer."""
        ready = [(output, *self._prepare(output)) for output in write.outputs]
        with self._data.transaction("data_commit") as tx:
            _check_fence(tx, write.fence)
            before = _before(tx, write)
            if before is not None:
                return before
            if write.cursor is not None:
                _move_cursor(tx, write)
            numbers = _lock_counters(tx, write.outputs)
            tx.run(_SQL["record_completion"], self._completion(write))
            for output, version, batches in ready:
                number = numbers[output.dataset_version] = numbers[output.dataset_version] + 1
                write_rows(tx, write, output, version, batches, number)
                self._data.crash_points("data_commit:output_written")
            for version_id, number in numbers.items():
                given = {"dataset_version": version_id, "number": number}
                tx.run(_SQL["set_last_number"], given)
            commits = _recorded(tx, write.fence, write.step)
        return Committed(write.fence, write.step, commits, dict(write.body))

    def unregistered(
        self, after: tuple[DatasetVersion, int] | None = None, limit: int = 100
    ) -> list[Unregistered]:
        """Commits not marked yet, by version and number, from beyond `after` on."""
        version, number = after or (_FIRST, 0)
        given = {"dataset_version": version, "number": number, "limit": limit}
        return [_unregistered(row) for row in self._data.read(_SQL["unregistered"], given)]

    def mark_registered(self, commits: Sequence[tuple[DatasetVersion, int]]) -> None:
        """The state database knows them; marking twice changes nothing."""
        given = {
            "versions": Uuids([version for version, _ in commits]),
            "numbers": Bigints([number for _, number in commits]),
            "now": self._clock.now(),
        }
        self._data.write("mark_registered", _SQL["mark_registered"], given)

    def _prepare(self, output: RowsOutput) -> tuple[VersionTable, Batches]:
        """Everything that can be slow or wrong, before anything is locked."""
        given = {"dataset_version": output.dataset_version}
        found = self._data.read(_SQL["definition"], given)
        if not found or found[0].dataset_uuid != output.dataset_uuid:
            raise NotFound(
                "The dataset version has no table; a deploy makes it.",
                dataset_version=str(output.dataset_version),
            )
        version = version_of(output.dataset_version, found[0])
        if output.scope.range is not None and max(map(abs, output.scope.range)) > _BOUND_MAX:
            raise Invalid("The bounds of a scope lie within 62 bits.", field="scope")
        required = [*version.unique_key, *([output.cursor_column] if output.cursor_column else [])]
        batches = []
        for batch in conformed(output.rows, version.columns, required=required):
            check_keys(batch, version.unique_key)
            if output.cursor_column:
                check_cursors(
                    batch.column(output.cursor_column), output.cursor_column, output.scope
                )
            batches.append(batch)
        return version, batches

    def _completion(self, write: DataCommit) -> dict[str, Any]:
        return {
            **vars(write.fence),
            "step": write.step,
            "request_digest": write.digest,
            "input_pins": as_json([pin.fields() for pin in write.input_pins]),
            "body": as_json(dict(write.body)),
            "now": self._clock.now(),
        }


def _check_fence(tx: DataTransaction, fence: DataFence) -> None:
    """Ours and of this epoch, and locked: nobody takes over before this transaction ends."""
    epoch = tx.one(_SQL["current_epoch"], {})
    held = tx.one(_SQL["lock_fence"], {"task_id": fence.task_id})
    ours = (fence.epoch, fence.attempt, fence.lease_sequence)
    if epoch is None or epoch.epoch != fence.epoch or held is None or tuple(held) != ours:
        raise Fenced(
            task_id=str(fence.task_id), attempt=fence.attempt, lease_sequence=fence.lease_sequence
        )


def _before(tx: DataTransaction, write: DataCommit) -> Committed | None:
    known = tx.one(_SQL["this_completion"], {**vars(write.fence), "step": write.step})
    if known is None:
        return None
    if known.request_digest != write.digest:
        raise OutcomeDiffers(
            "This step was committed with other outputs, pins or body; count steps up.",
            task_id=str(write.fence.task_id),
            step=write.step,
        )
    commits = _recorded(tx, write.fence, write.step)
    return Committed(write.fence, write.step, commits, known.body, repeated=True)


def _move_cursor(tx: DataTransaction, write: DataCommit) -> None:
    assert write.cursor is not None  # noqa: S101
    expected = write.cursor.expected
    given = {
        "task_id": write.fence.task_id,
        "expected": None if expected is None else as_json(expected),
        "value": as_json(write.cursor.value),
    }
    if tx.one(_SQL["move_cursor"], given) is None:
        raise CursorMoved(task_id=str(write.fence.task_id))


def _lock_counters(
    tx: DataTransaction, outputs: tuple[RowsOutput, ...]
) -> dict[DatasetVersion, int]:
    wanted = sorted({output.dataset_version for output in outputs})
    rows = tx.all(_SQL["lock_versions"], {"versions": Uuids(wanted)})
    if len(rows) != len(wanted):
        raise NotFound("A dataset version was purged.")
    return {DatasetVersion(row.dataset_version): row.last_number for row in rows}


def _recorded(tx: DataTransaction, fence: DataFence, step: int) -> tuple[RecordedCommit, ...]:
    rows = tx.all(_SQL["records_of_completion"], {**vars(fence), "step": step})
    return tuple(_recorded_commit(row) for row in rows)


def _recorded_commit(row: Row) -> RecordedCommit:
    return RecordedCommit(
        DatasetUuid(row.dataset_uuid),
        DatasetVersion(row.dataset_version),
        row.number,
        row.output_index,
        Scope.parse(row.scope, row.start_at, row.end_at),
        row.replaces,
        row.row_count,
    )


def _unregistered(row: Row) -> Unregistered:
    return Unregistered(
        _recorded_commit(row),
        DataFence(TaskId(row.task_id), row.epoch, row.attempt, row.lease_sequence),
        row.step,
        tuple(Pin.parse(each) for each in row.input_pins),
        row.body,
        row.committed_at,
    )
