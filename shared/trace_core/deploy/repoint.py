"""Repoint: views of the data database follow the pointers of the state database.

A switch leaves one outbox row; whoever sends it reads the pointers as they are then, so that a late
row moves nothing back. A chore of the Dispatcher copies readable pins, and asks again for what is
not as it should be: a first commit made a table, or a row was given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase, Transaction
from trace_core.deploy.statements import SQL
from trace_core.kernel.ids import DagId, DatasetVersion, Ids, OrgId
from trace_core.outbox.store import OutboxRow
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.storage.published_views import PublishedPart, PublishedTable, PublishedViews

KIND = "repoint"
LOOK_EVERY = timedelta(minutes=1)


def ask_repoint(tx: Transaction, ids: Ids, params: Mapping[str, Any]) -> None:
    """In the transaction of a switch, if the DAG publishes anything in Postgres."""
    tx.run(SQL["ask_repoint"], {**params, "outbox_id": ids.uuid()})


class Repoints:
    """Any number run at once; what each remembers only saves it work."""

    def __init__(
        self, state: StateDatabase, views: PublishedViews, clock: Clock, ids: Ids, waker: Waker
    ) -> None:
        self._state = state
        self._views = views
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._copied: Mapping[DatasetVersion, int] = {}
        self._looked_at: datetime | None = None

    def send(self, _org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        """What an outbox row of this kind asks for; its target is the DAG."""
        for row in rows:
            dag_id = DagId(UUID(row.target))
            self._views.repoint(dag_id, partial(self._wanted, dag_id), row.attempts)

    def chore(self) -> int:
        """One pass; answers how many DAGs were found whose views must move."""
        wanted = self._wanted(None)
        pins = {part.dataset_version: part.number for table in wanted for part in table.parts}
        moved = {each: n for each, n in pins.items() if n > self._copied.get(each, 0)}
        if moved:
            self._views.advance_pins([PublishedPart(each, n) for each, n in moved.items()])
        # The first commit of a version makes its table, if nobody did before.
        fresh = any(each not in self._copied for each in moved)
        found = self._look(wanted) if fresh or self._is_time() else 0
        self._copied = {each: n for each, n in pins.items() if n}
        return found

    def _is_time(self) -> bool:
        return self._looked_at is None or self._clock.now() >= self._looked_at + LOOK_EVERY

    def _look(self, wanted: Sequence[PublishedTable]) -> int:
        now = self._clock.now()
        stale: set[tuple[OrgId, DagId]] = set()
        # Who has nothing there perhaps has no such database.
        if wanted or self._state.read(SQL["has_tables"], {})[0].has_tables:
            stale = self._views.stale(wanted)
        self._looked_at = now
        if not stale:
            return 0
        dags = sorted(stale)
        asked = self._state.write(
            "sweep_repoints",
            SQL["sweep_repoints"],
            {
                "now": now,
                "outbox_ids": Uuids(self._ids.many(len(dags))),
                "org_ids": Uuids(org_id for org_id, _ in dags),
                "dag_ids": Uuids(dag_id for _, dag_id in dags),
            },
        )
        if asked:
            self._waker.wake(Function.OUTBOX_RELAY)
        return len(asked)

    def _wanted(self, dag_id: DagId | None) -> list[PublishedTable]:
        return [
            PublishedTable(
                row.org_id,
                row.dag_id,
                row.dataset_name,
                tuple(
                    PublishedPart(DatasetVersion(version), number)
                    for version, number in zip(row.versions, row.numbers, strict=True)
                ),
            )
            for row in self._state.read(SQL["published_tables"], {"dag_id": dag_id})
        ]
