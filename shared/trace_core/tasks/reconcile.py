"""Reconciliation: what the data database has committed becomes known, whoever died since.

A commit that passed the fence there is true. If its attempt did not live to report it, or its task
was canceled, it is registered here, under the attempt and the pins that wrote it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.ids import DatasetVersion, Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.registry.commits import Lease, Written, register
from trace_core.registry.relations import lock_with_relations
from trace_core.tasks.announcements import Announcement, announce

if TYPE_CHECKING:
    # It needs Arrow, which a process that reconciles nothing does without.
    from trace_core.storage.commits import Unregistered

SQL = Statements("trace_core.tasks", "reconcile.sql")
logger = logging.getLogger(__name__)
_PAGES_MAX = 20
Key = tuple[DatasetVersion, int]


class DataRecords(Protocol):
    """What the data database has recorded of its commits."""

    def unregistered(self, after: Key | None = None, limit: int = 100) -> list[Unregistered]: ...

    def mark_registered(self, commits: Sequence[Key]) -> None: ...


@dataclass(frozen=True)
class ReconcileReport:
    registered: int = 0
    """Commits that nobody had reported."""
    marked: int = 0
    """Commits that are registered, and are not looked at again."""
    refused: int = 0
    """Commits that do not fit what is registered here: somebody must look."""


class Reconciliation:
    """Any number run at once: each commit is registered under the lock of its version."""

    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        records: Callable[[], DataRecords],
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        """`records` is asked for only if some dataset has rows in the data database."""
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._records = records
        self._timings = timings

    def run_once(self, limit: int = 200) -> ReconcileReport:
        if not self._state.read(SQL["any_in_data_database"], {})[0].found:
            return ReconcileReport()
        records = self._records()
        registered = marked = refused = 0
        for page in self._pages(records, limit):
            known = self._known(page)
            for group in _together(self._due(page, known)):
                try:
                    registered += self._register(group)
                except (Conflict, NotFound) as error:
                    refused += len(group)
                    logger.error(
                        "commits of task %s in the data database: %s",
                        group[0].fence.task_id, error.message,
                    )  # fmt: skip
                    continue
                known |= {_key(each) for each in group}
            if known:
                records.mark_registered(sorted(known))
            marked += len(known)
            if marked >= limit:
                break
        return ReconcileReport(registered, marked, refused)

    @staticmethod
    def _pages(records: DataRecords, limit: int) -> Iterator[list[Unregistered]]:
        """One after another, so that what has to wait holds up nothing behind it."""
        after: Key | None = None
        for _ in range(_PAGES_MAX):
            page = records.unregistered(after, limit)
            if page:
                yield page
                after = _key(page[-1])
            if len(page) < limit:
                return

    def _known(self, page: Sequence[Unregistered]) -> set[Key]:
        """Most were reported by their attempt: those are only marked."""
        keys = [_key(each) for each in page]
        rows = self._state.read(
            SQL["known_commits"],
            {
                "versions": Uuids([version for version, _ in keys]),
                "numbers": Bigints([number for _, number in keys]),
            },
        )
        return {(row.dataset_version, row.number) for row in rows}

    def _due(self, page: Sequence[Unregistered], known: set[Key]) -> list[Unregistered]:
        """Not those whose attempt may be about to report all that it wrote, at once."""
        before = self._clock.now() - self._timings.sweep_grace
        return [each for each in page if each.committed_at <= before and _key(each) not in known]

    def _register(self, group: Sequence[Unregistered]) -> int:
        """All that one data transaction wrote, together."""
        now = self._clock.now()
        with self._state.transaction("reconcile") as tx:
            named = [each.commit.dataset_version for each in group]
            versions, relations = lock_with_relations(tx, named)
            done = register(tx, versions, [_written(each) for each in group], now, relations)
            org_id = OrgId(versions[group[0].commit.dataset_version].org_id)
            announcements = [Announcement.of(each) for each in done.readable]
            announced = announce(tx, self._ids, org_id, announcements, now)
        if announced.woke:
            self._waker.wake(Function.OUTBOX_RELAY)
        return len(group)


def _together(records: Sequence[Unregistered]) -> list[list[Unregistered]]:
    groups: dict[tuple[UUID, int, int, int, int], list[Unregistered]] = {}
    for each in records:
        fence = each.fence
        key = (fence.task_id, fence.epoch, fence.attempt, fence.lease_sequence, each.step)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _key(record: Unregistered) -> Key:
    return record.commit.dataset_version, record.commit.number


def _written(record: Unregistered) -> Written:
    commit, fence = record.commit, record.fence
    return Written(
        commit.dataset_version, commit.scope,
        Lease(fence.task_id, fence.attempt, fence.lease_sequence), commit.output_index,
        commit.row_count, number=commit.number, replaces=commit.replaces,
        pins=record.input_pins,
    )  # fmt: skip
