"""Outbox rows: taken, sent, finished or postponed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.backoff import Jitter, delay
from trace_core.kernel.ids import OrgId, TaskId

SQL = Statements("trace_core.outbox", "outbox.sql")


@dataclass(frozen=True)
class OutboxRow:
    outbox_id: UUID
    org_id: OrgId
    kind: str
    target: str
    task_ids: tuple[TaskId, ...]
    attempts: int


class Outbox:
    def __init__(self, state: StateDatabase, jitter: Jitter) -> None:
        self._state = state
        self._jitter = jitter

    def take_due(self, now: datetime, limit: int) -> list[OutboxRow]:
        rows = self._state.write(
            "outbox_take",
            SQL["take_due"],
            {"now": now, "limit": limit, "lease": limits.OUTBOX_LEASE},
        )
        return [
            OutboxRow(r.outbox_id, r.org_id, r.kind, r.target, tuple(r.task_ids), r.attempts)
            for r in rows
        ]

    def finish(self, rows: Sequence[OutboxRow]) -> None:
        self._state.write(
            "outbox_finish",
            SQL["finish"],
            {
                "outbox_ids": [row.outbox_id for row in rows],
                "attempts": [row.attempts for row in rows],
            },
        )

    def postpone(
        self, rows: Sequence[OutboxRow], error: str, now: datetime, *, hopeless: bool = False
    ) -> int:
        """Back off; after the last try the row is Failed, and at once when trying is hopeless.

        Answers how many were given up.
        """
        given_up = [hopeless or row.attempts >= limits.OUTBOX_MAX_ATTEMPTS for row in rows]
        self._state.write(
            "outbox_postpone",
            SQL["postpone"],
            {
                "outbox_ids": [row.outbox_id for row in rows],
                "attempts": [row.attempts for row in rows],
                "statuses": ["Failed" if over else "Pending" for over in given_up],
                "available_ats": [
                    now
                    + delay(
                        limits.OUTBOX_BACKOFF_BASE,
                        limits.OUTBOX_BACKOFF_CAP,
                        row.attempts - 1,
                        self._jitter,
                    )
                    for row in rows
                ],
                "errors": [error[:500] for _ in rows],
            },
        )
        return sum(given_up)

    def put_back(self, rows: Sequence[OutboxRow], now: datetime) -> None:
        """As if they had not been taken."""
        self._state.write(
            "outbox_put_back",
            SQL["put_back"],
            {
                "outbox_ids": [row.outbox_id for row in rows],
                "attempts": [row.attempts for row in rows],
                "now": now,
            },
        )
