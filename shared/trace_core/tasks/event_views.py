"""Events, the newest first.

Nothing but a summary of block ranges is kept about the time of events: an index would be paid for
by every event that is accepted, for the few that are ever looked at. So a page is searched
backwards in spans of time, each longer than the one before as long as it is quickly read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.ids import OrgId, first_uuid7
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.tasks", "event_views.sql")
_LAST_ID = UUID(int=2**128 - 1)
_FIRST_SPAN = timedelta(minutes=1)
_GROWTH = 8
_QUICK_SECONDS = 0.1
_BUDGET_SECONDS = 3.0
_SKEW = timedelta(days=1)
"""By so much the clocks that made ids may differ."""


@dataclass(frozen=True)
class EventFilter:
    dag: str | None = None
    job: str | None = None
    task: UUID | None = None
    scope: str | None = None
    """A cursor or a partition key, as text."""


@dataclass(frozen=True)
class FoundEvents:
    events: list[dict[str, Any]]
    before: UUID | None
    """Where the search goes on; None when there is nothing before."""


class EventViews:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._clock = clock
        self._monotonic = monotonic

    def events(
        self, org_id: OrgId, wanted: EventFilter, *, limit: int, before: UUID | None = None
    ) -> FoundEvents:
        """At most `limit`, or as many as were found in the time that a request may take."""
        params: dict[str, Any] = {
            "org_id": org_id,
            "dag": wanted.dag,
            "job": wanted.job,
            "task_id": wanted.task,
            "scope": wanted.scope,
        }
        began = self._state.read(SQL["began"], params)[0]
        if wanted.task is not None and began.activation is None:
            return FoundEvents([], None)
        if wanted.task is not None and began.activation != "source":
            params |= {"before": before or _LAST_ID, "limit": limit + 1}
            return _page(self._state.read(SQL["events_of_producer"], params), limit, None)
        statement = SQL["events_between" if wanted.task is None else "events_of_source_between"]
        return self._search(statement, params, began.created_at, limit, before)

    def _search(
        self,
        statement: str,
        params: dict[str, Any],
        began: datetime,
        limit: int,
        before: UUID | None,
    ) -> FoundEvents:
        floor = first_uuid7(began - _SKEW)
        upper, span = before or _LAST_ID, _FIRST_SPAN
        latest = self._clock.now() + _SKEW
        give_up_at = self._monotonic() + _BUDGET_SECONDS
        rows: list[Row] = []
        while len(rows) <= limit and upper > floor:
            asked_at = self._monotonic()
            if asked_at >= give_up_at:
                return _page(rows, limit, upper)
            lower = max(floor, first_uuid7(min(_time_of(upper), latest) - span))
            asked = {"since": lower, "before": upper, "limit": limit + 1 - len(rows)}
            rows += self._state.read(statement, params | asked)
            upper = lower
            if self._monotonic() - asked_at < _QUICK_SECONDS:
                span *= _GROWTH
        return _page(rows, limit, None)


def _time_of(event_id: UUID) -> datetime:
    milliseconds = event_id.int >> 80
    # The largest id stands for no time that Python can tell.
    return datetime.fromtimestamp(min(milliseconds, 253_402_300_799_000) / 1000, UTC)


def _page(rows: list[Row], limit: int, before: UUID | None) -> FoundEvents:
    if len(rows) > limit:
        before = rows[limit - 1].event_id
    return FoundEvents([_event(row) for row in rows[:limit]], before)


def _event(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = row._asdict()
    start, end = fields.pop("range_start"), fields.pop("range_end")
    fields["scope"] = Scope.parse(fields["scope"], start, end).fields()
    return fields
