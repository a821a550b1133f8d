"""Ten million finished tasks, in the partitions that the measured work uses too.

Half of them were made by events of a source, half by events of the first half; each has its
attempt, its pinned input and its event. The filled database is kept and found again by its name.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

from bench.contract import contract_site
from bench.world import Server, Site
from trace_core.database.migrate import migrations

_CHUNK = 250_000
_PREFIX = "bench_filled_"

# An id of number n: the milliseconds of its time, the version, n, and four digits of the route.
_ID = (
    "(lpad(to_hex({start} + (n * {step})::bigint), 12, '0') || '7000' || '8' ||"
    " lpad(to_hex({n}), 11, '0') || '{route}')::uuid"
)
_STATEMENTS = {
    "tasks": """
INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                   dataset_version, scope, range_start, range_end, revision)
SELECT {task}, '{org}', CASE n %% 2 WHEN 0 THEN '{b}' ELSE '{c}' END::uuid, 0, {at}, {event},
       CASE n %% 2 WHEN 0 THEN '{source}'::uuid ELSE {producer} END,
       CASE n %% 2 WHEN 0 THEN '{source_version}' ELSE '{b_version}' END::uuid,
       'c' || (n / 2), n / 2, n / 2, 0
  FROM generate_series(%s::bigint, %s::bigint) n""",
    "attempts": """
INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, leased_at, started_at,
                      ended_at, worker_id, lease_sequence, lease_token, body_digest)
SELECT {task}, 1, '{org}', CASE n %% 2 WHEN 0 THEN '{b}' ELSE '{c}' END::uuid, 'Completed', true,
       {at}, {at}, {at}, 'bench-1', 1, {event}, {event}
  FROM generate_series(%s::bigint, %s::bigint) n""",
    "task_inputs": """
INSERT INTO task_inputs (task_id, attempt, lease_sequence, input_index, dataset_version)
SELECT {task}, 1, 1, 0, CASE n %% 2 WHEN 0 THEN '{source_version}' ELSE '{b_version}' END::uuid
  FROM generate_series(%s::bigint, %s::bigint) n""",
    "events": """
INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id, org_id, attempt,
                    range_start, range_end, accepted_at)
SELECT CASE n %% 2 WHEN 0 THEN '{source}'::uuid ELSE {producer} END,
       CASE n %% 2 WHEN 0 THEN '{source_version}' ELSE '{b_version}' END::uuid,
       'c' || (n / 2), 0, {event}, '{org}', 1, n / 2, n / 2, {at}
  FROM generate_series(%s::bigint, %s::bigint) n""",
}
_TOGETHER = (("tasks", "task_inputs"), ("events", "attempts"))


@dataclass(frozen=True)
class Filled:
    dsn: str
    rows: int
    seconds: float | None
    """None when it was found, not made."""
    gigabytes: float


def filled_database(server: Server, rows: int, say: Callable[[str], None]) -> Filled:
    """The kept database of that many finished tasks, made if it is not there."""
    now = datetime.now(UTC)
    schema = hashlib.sha256("".join(m.checksum for m in migrations()).encode()).hexdigest()[:8]
    name = f"{_PREFIX}{rows}_{now:%Y%m}_{schema}"
    seconds = None
    if name not in server.names():
        for old in server.names():
            # Of another month or schema, or not finished.
            if old.startswith((f"{_PREFIX}{rows}_", "bench_filling")):
                server.drop(old)
        say(f"filling in {rows:,} finished tasks, once (kept in {server.folder})")
        started_at = time.monotonic()
        dsn = server.fresh("bench_filling")
        _fill(dsn, contract_site(dsn, server.home), rows, now, say)
        seconds = time.monotonic() - started_at
        server.rename("bench_filling", name)
    dsn = server.database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return Filled(dsn, rows, seconds, row[0] / 1e9)


def _fill(dsn: str, site: Site, rows: int, now: datetime, say: Callable[[str], None]) -> None:
    statements = _statements(site, rows, now)
    failures: list[BaseException] = []

    def insert(tables: tuple[str, ...]) -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("SET synchronous_commit = off")
                for table in tables:
                    for first in range(1, rows + 1, _CHUNK):
                        last = min(first + _CHUNK - 1, rows)
                        connection.execute(statements[table], [first, last])
                    connection.execute(f"VACUUM (FREEZE, ANALYZE) {table}")
                    say(f"  {table} done")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=insert, args=(tables,)) for tables in _TOGETHER]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _statements(site: Site, rows: int, now: datetime) -> dict[str, str]:
    """Spread evenly from the start of the month until an hour ago."""
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    until = max(now - timedelta(hours=1), month + timedelta(seconds=1))
    start, step = int(month.timestamp() * 1000), (until - month) / timedelta(milliseconds=1) / rows
    numbers = {"start": start, "step": f"{step:.9f}::float8"}
    # A task of the second half was made by the one before it, of the first half.
    names = {
        "task": _ID.format(n="n", route="0001", **numbers),
        "event": _ID.format(n="n", route="0000", **numbers),
        "producer": _ID.format(n="n - 1", route="0001", **numbers).replace("(n *", "((n - 1) *"),
        "at": f"to_timestamp(({start} + n * {step:.9f}::float8) / 1000)",
        "org": site.org_id,
        "source": site.sources["contract0.source"].task_id,
        "b": site.jobs["contract0.b"],
        "c": site.jobs["contract0.c"],
        "source_version": site.sources["contract0.source"].output.dataset_version,
        "b_version": site.outputs[site.jobs["contract0.b"]].dataset_version,
    }
    return {table: text.format(**names) for table, text in _STATEMENTS.items()}
