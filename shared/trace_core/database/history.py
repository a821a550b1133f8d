"""History: partitioned by the month of the task, so that retention can drop whole months.

The months to come are made before they are needed. There is no default partition: rows in one
would block the partition that they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from psycopg import Connection, sql

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import first_uuid7
from trace_core.kernel.limits import HISTORY_MONTHS_AHEAD

_STATEMENTS = Statements("trace_core.database", "history.sql")
_TABLES = ("tasks", "attempts", "task_inputs", "task_outputs", "events")
_MONTH = re.compile(r"tasks_(\d{4})(\d{2})")
_LOOK_EVERY = timedelta(hours=1)


class History:
    """Keeps the coming months ready while the platform runs."""

    def __init__(self, state: StateDatabase, now: Callable[[], datetime]) -> None:
        self._state = state
        self._now = now
        self._looked_at: datetime | None = None
        self._ahead = 0

    def months_ahead(self) -> int:
        """Makes what is missing, at most once an hour; answers how many months are ready."""
        now = self._now()
        if self._looked_at is None or now - self._looked_at >= _LOOK_EVERY:
            with self._state.connection() as connection, connection.transaction():
                add_months(connection, now)
                self._ahead = _ahead(connection, now)
            self._looked_at = now
        return self._ahead


def add_months(connection: Connection[Any], now: datetime) -> None:
    """Make each missing month up to `HISTORY_MONTHS_AHEAD`, and one for all that came before."""
    connection.execute(_STATEMENTS["lock_history"])
    existing = _existing(connection)
    months = [_month(now, offset) for offset in range(HISTORY_MONTHS_AHEAD + 2)]
    for table in _TABLES:
        if not any(name.startswith(f"{table}_") for name in existing):
            _add(connection, table, f"{table}_before", None, months[0])
        for start, end in pairwise(months):
            name = f"{table}_{start:%Y%m}"
            if name not in existing:
                _add(connection, table, name, start, end)


def _existing(connection: Connection[Any]) -> set[str]:
    return {str(row[0]) for row in connection.execute(_STATEMENTS["history_partitions"])}


def _ahead(connection: Connection[Any], now: datetime) -> int:
    matches = [_MONTH.fullmatch(name) for name in _existing(connection)]
    last = max((int(m[1]) * 12 + int(m[2]) for m in matches if m), default=0)
    return max(0, last - (now.year * 12 + now.month))


def _month(now: datetime, offset: int) -> datetime:
    index = now.year * 12 + now.month - 1 + offset
    return now.replace(
        year=index // 12, month=index % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _add(
    connection: Connection[Any], table: str, name: str, start: datetime | None, end: datetime
) -> None:
    for statement in ("make_history_partition", "attach_history_partition"):
        connection.execute(
            sql.SQL(_STATEMENTS[statement]).format(
                partition=sql.Identifier(name),
                parent=sql.Identifier(table),
                start=sql.SQL("MINVALUE")
                if start is None
                else sql.Literal(str(first_uuid7(start))),
                end=sql.Literal(str(first_uuid7(end))),
            )
        )
