"""Bugs that the walk over commits must catch: each a small change of the real services.

With each goes the shortest path on which the walk has caught it, so that a test can go that way and
need not walk anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from unittest import mock

from tests.simulation import commit_attempts
from tests.simulation.kept_tables import SQL
from tests.simulation.planted import DoesNotMatch
from trace_core.kernel.errors import Superseded
from trace_core.registry import commit_rows, commits, model
from trace_core.storage import postgres_output, row_writes
from trace_core.storage.commits import DataFence
from trace_core.storage.model import Backend
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.task_rows import TaskRows
from trace_core.tasks import outputs, reconcile
from trace_core.tasks.late import LateReports
from trace_core.tasks.reconcile import Reconciliation

Plant = Callable[[ExitStack], None]


def _patch(target: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace an attribute by what `make` makes of the original."""

    def plant(stack: ExitStack) -> None:
        stack.enter_context(mock.patch.object(target, name, make(getattr(target, name))))

    return plant


def _edit(name: str, old: str, new: str) -> Plant:
    """Replace text in a statement of the data database."""

    def plant(stack: ExitStack) -> None:
        statements = row_writes.STATEMENTS
        if old not in statements[name]:
            raise DoesNotMatch(f"{name} has no {old!r}")
        changed = {**statements.all, name: statements[name].replace(old, new)}
        stack.enter_context(mock.patch.object(statements, "all", MappingProxyType(changed)))

    return plant


def _all(*plants: Plant) -> Plant:
    def plant(stack: ExitStack) -> None:
        for each in plants:
            each(stack)

    return plant


def _no(*_arguments: Any) -> bool:
    return False


def _never(_original: Any) -> Any:
    return lambda *_arguments, **_rest: None


def _promise(_self: Any, task_id: Any, attempt: int, lease_sequence: int) -> DataFence:
    return DataFence(task_id, 1, attempt, lease_sequence)


def _promised_fence(begin: Any) -> Any:
    """The fence is a promise, kept when the attempt writes."""

    def begun(self: TaskRows, payload: Any) -> Any:
        with mock.patch.object(PostgresOutput, "advance_fence", _promise):
            return begin(self, payload)

    return begun


def _late_fence(store: Any) -> Any:
    def stored(self: TaskRows, payload: Any, begun: Any, *rest: Any) -> Any:
        fence = begun.fence
        self._output().advance_fence(fence.task_id, fence.attempt, fence.lease_sequence)
        return store(self, payload, begun, *rest)

    return stored


def _after_the_look(begin: Any) -> Any:
    """First the record, then the fence."""

    def begun(self: TaskRows, payload: Any) -> Any:
        with mock.patch.object(PostgresOutput, "advance_fence", _promise):
            found = begin(self, payload)
        fence = found.fence
        self._output().advance_fence(fence.task_id, fence.attempt, fence.lease_sequence)
        return found

    return begun


def _from_a_sequence(_lock_counters: Any) -> Any:
    def taken(tx: Any, written: Any) -> Any:
        number = tx.one(SQL["next_number"], {}).number
        return {output.dataset_version: number - 1 for output in written}

    return taken


def _replaces_nothing(close: Any) -> Any:
    def closed(*arguments: Any) -> int:
        close(*arguments)
        return 0

    return closed


def _of_the_newest_lease(pins_of: Any) -> Any:
    def found(tx: Any, lease: Any) -> Any:
        row = tx.one(SQL["newest_lease"], {"task_id": lease.task_id})
        return pins_of(tx, replace(lease, attempt=row.attempt, lease_sequence=row.lease_sequence))

    return found


def _without_pins(written: Any) -> Any:
    return lambda record: replace(written(record), pins=None)


def _not_of_canceled(due: Any) -> Any:
    def kept(self: Reconciliation, *arguments: Any) -> Any:
        canceled = {row.task_id for row in self._state.read(SQL["canceled_tasks"], {})}
        return [each for each in due(self, *arguments) if each.fence.task_id not in canceled]

    return kept


def _all_known(_known: Any) -> Any:
    return lambda _self, page: {(each.commit.dataset_version, each.commit.number) for each in page}


def _the_highest(_advance: Any) -> Any:
    return lambda readable, registered: max([readable, *registered])


def _all_at_once(advance: Any) -> Any:
    """Announces what it registers, whether or not all before it is there."""

    def advanced(tx: Any, version: Any, numbers: Any) -> Any:
        found = advance(tx, version, numbers)
        early = set(numbers) - {each.number for each in found}
        given = {"dataset_version": version.dataset_version, "after": version.readable,
                 "up_to": max(numbers)}  # fmt: skip
        rows = [
            row for row in tx.all(commit_rows.SQL["became_readable"], given) if row.number in early
        ]
        first = version.last_number + len(found) + 1
        return found + [commits._readable(version, row, at) for at, row in enumerate(rows, first)]

    return advanced


def _under_its_own_attempt(of_record: Any) -> Any:
    return lambda output, lease: replace(of_record(output, lease), lease=lease)


def _without_a_fence(_complete: Any) -> Any:
    def completed(self: LateReports, tx: Any, org_id: Any, c: Any, _params: Any, ended: Any,
                  prepared: Any) -> tuple[str, bool]:  # fmt: skip
        self._results.write(
            tx, org_id, c, ended.job_id, ended.lease_sequence, self._clock.now(), prepared
        )
        return "Completed", False

    return completed


def _drops_superseded(follow_up: Any) -> Any:
    def followed(report: Any, error: Any) -> Any:
        return None if isinstance(error, Superseded) else follow_up(report, error)

    return followed


@dataclass(frozen=True)
class Bug:
    name: str
    says: str
    plant: Plant
    path: str
    """Actions, with blanks between them."""
    backend: Backend = Backend.POSTGRES


_SLOW = "claim_A begin_A1 advance claim_B begin_B1"
_RETRIED = "claim_A begin_A1 expire_A claim_A"
_CLOSE = "UPDATE {schema}.{table} SET _to=%(number)s"

BUGS = (
    Bug("fence_advanced_late", "an attempt takes over only when it writes", _all(
        _patch(TaskRows, "begin", _promised_fence), _patch(TaskRows, "store", _late_fence)),
        f"{_RETRIED} begin_A2 commit_A1"),
    Bug("fence_not_checked", "a data transaction does not compare the fence", _patch(
        postgres_output, "_check_fence", _never),
        f"{_RETRIED} begin_A2 commit_A1"),
    Bug("fence_not_locked", "the next attempt takes over in the middle of a commit", _edit(
        "lock_fence", " FOR UPDATE", ""),
        f"{_RETRIED} commit_A1/begin_A2"),
    Bug("record_before_the_fence", "a retry looks for a record before it takes over", _patch(
        TaskRows, "begin", _after_the_look),
        f"{_RETRIED} begin_A2/commit_A1"),
    Bug("numbers_from_a_sequence", "a number is taken whether its commit is or not", _patch(
        postgres_output, "_lock_counters", _from_a_sequence),
        f"{_SLOW} commit_A1/commit_B1"),
    Bug("record_without_what_it_replaces", "a record does not say which commit it replaced", _patch(
        row_writes, "_close", _replaces_nothing),
        f"{_SLOW} commit_A1 commit_B1"),
    Bug("record_not_looked_up", "a retry does not look for a record", _patch(
        PostgresOutput, "find_records", _never),
        "claim_A begin_A1 commit_A1 expire_A claim_A begin_A2"),
    Bug("record_of_the_reporter", "a retry reports the record as its own", _patch(
        outputs, "_of_record", _under_its_own_attempt),
        "claim_A begin_A1 commit_A1 expire_A claim_A begin_A2 report_A2"),
    Bug("superseded_unchecked", "a slow task writes over newer inputs", _patch(
        row_writes, "any_later", lambda _any_later: _no),
        f"{_SLOW} commit_B1 commit_A1"),
    Bug("rewrite_deletes_rows", "a rewrite deletes rows instead of closing them", _edit(
        "close_rows_of_range", _CLOSE, "DELETE FROM {schema}.{table}"),
        f"{_SLOW} commit_A1 report_A1 commit_B1"),
    Bug("sweep_takes_current_pins", "the sweep registers the pins of the current attempt", _all(
        _patch(reconcile, "_written", _without_pins),
        _patch(commits, "pins_of", _of_the_newest_lease)),
        "claim_A begin_A1 commit_A1 advance expire_A claim_A sweep"),
    Bug("sweep_skips_canceled", "the commit of a canceled task is forgotten", _patch(
        Reconciliation, "_due", _not_of_canceled),
        "claim_A begin_A1 commit_A1 cancel_A"),
    Bug("sweep_marks_unregistered", "the sweep marks what nobody has registered", _patch(
        Reconciliation, "_known", _all_known),
        "claim_A begin_A1 commit_A1 sweep"),
    Bug("readable_past_a_gap", "a commit is readable although one before it is missing", _patch(
        model, "advance", _the_highest),
        f"{_SLOW} commit_A1 commit_B1 report_B1"),
    Bug("announced_before_readable", "a commit is announced before pins reach it", _patch(
        commits, "_advance", _all_at_once),
        f"{_SLOW} commit_A1 commit_B1 report_B1"),
    Bug("manifest_without_fence", "a verified manifest is committed without the fence", _patch(
        LateReports, "_complete", _without_a_fence),
        "claim_A write_A1 expire_A claim_A report_A1", Backend.S3),
    Bug("superseded_unchecked_in_state", "a manifest of older inputs is committed", _patch(
        model, "any_later", lambda _any_later: _no),
        "claim_A advance claim_B write_A1 write_B1 report_B1 report_A1", Backend.S3),
    Bug("superseded_report_dropped", "a worker drops a completion refused as superseded", _patch(
        commit_attempts, "follow_up", _drops_superseded),
        "claim_A advance claim_B write_A1 write_B1 report_B1 report_A1", Backend.S3),
)  # fmt: skip

NAMES = tuple(bug.name for bug in BUGS)


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The services with that bug, until the block ends."""
    with ExitStack() as stack:
        bug.plant(stack)
        yield
