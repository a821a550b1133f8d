"""The history of a DAG in a form that two runs share: no ids, no times, no order.

What two runs may do differently is left out: attempts before the last one of a task, who ran it,
and which task of an aggregator brought the last piece of a range (tasks run at once, so another one
may be last). Everything else is compared, line by line and as often as it occurs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from trace_core.database.sql import Statements

SQL = Statements("infra.smoke", "history.sql")
_GATHERING = frozenset({"range_aggregator"})
_SHOWN = 10


@dataclass(frozen=True)
class History:
    tasks: Counter[str]
    events: Counter[str]
    repeated: int
    """Attempts before the last one of a task; said, not compared."""


def read(dsn: str, dag: str) -> History:
    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:

        def rows(name: str) -> list[Any]:
            return connection.execute(SQL[name], {"dag": dag}).fetchall()

        return History(
            Counter(map(task_line, rows("tasks_of_dag"))),
            Counter(map(event_line, rows("events_of_dag"))),
            rows("attempts_before_the_last")[0].number,
        )


def task_line(row: Any) -> str:
    made = f"made by {_producer(row)}" if row.producer else "made by the deploy"
    return f"task {row.job} {_scope(row)}, {made}: {row.outcome}"


def event_line(row: Any) -> str:
    values = f" ({row.range_start} to {row.range_end})" if row.range_start is not None else ""
    return f"event {_producer(row)} output {row.output_index}: {_scope(row)}{values}"


def differences(lite: Counter[str], aws: Counter[str]) -> Iterator[str]:
    """What one has and the other lacks, at most ten lines of each."""
    for name, more in (("lite", lite - aws), ("LocalStack", aws - lite)):
        yield from _listed(name, more.elements())


def _listed(name: str, lines: Iterable[str]) -> Iterator[str]:
    found = sorted(lines)
    for line in found[:_SHOWN]:
        yield f"only in {name}: {line}"
    if len(found) > _SHOWN:
        yield f"only in {name}: {len(found) - _SHOWN} more"


def _producer(row: Any) -> str:
    if row.producer_operator in _GATHERING:
        return f"a task of {row.producer}"
    return f"{row.producer} {row.producer_scope or 'slice'}"


def _scope(row: Any) -> str:
    if row.scope is None:
        return "of the source"
    return f"{row.scope} revision {row.revision}"
