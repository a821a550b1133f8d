"""The bare limit: guarded UPDATEs that claim and complete, and nothing else.

One narrow table, prepared statements, autocommit, rows picked by their place; no events, no
history, no routing, no validation, no wake-up. Nothing that keeps a fence can be faster by much.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import psycopg

from bench.crew import Count
from bench.world import World

_OPTIONS = "-c plan_cache_mode=force_generic_plan -c jit=off"
_CLAIM_ONE = """
UPDATE bare_tasks SET status = 1, attempt = attempt + 1, lease = %s
 WHERE ctid = (SELECT ctid FROM bare_tasks WHERE status = 0 ORDER BY id LIMIT 1
                  FOR UPDATE SKIP LOCKED)
RETURNING id, attempt
"""
_COMPLETE_ONE = """
UPDATE bare_tasks SET status = 2
 WHERE id = %s AND attempt = %s AND lease = %s AND status = 1
"""
_CLAIM = """
UPDATE bare_tasks SET status = 1, attempt = attempt + 1, lease = %s
 WHERE ctid = ANY (ARRAY(SELECT ctid FROM bare_tasks WHERE status = 0 ORDER BY id LIMIT %s
                            FOR UPDATE SKIP LOCKED))
RETURNING id, attempt
"""
_COMPLETE = """
UPDATE bare_tasks t SET status = 2
  FROM unnest(%s::bigint[], %s::integer[]) AS i (id, attempt)
 WHERE t.id = i.id AND t.attempt = i.attempt AND t.lease = %s AND t.status = 1
"""


def fill_bare(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bare_tasks")
        connection.execute(
            "CREATE TABLE bare_tasks (id bigint PRIMARY KEY, status smallint NOT NULL,"
            " attempt integer NOT NULL, lease uuid) WITH (autovacuum_vacuum_scale_factor = 0,"
            " autovacuum_vacuum_threshold = 5000)"
        )
        connection.execute(
            "INSERT INTO bare_tasks SELECT n, 0, 0 FROM generate_series(1, %s) n", [rows]
        )
        connection.execute("CREATE INDEX ON bare_tasks (id) WHERE status = 0")
        connection.execute("VACUUM ANALYZE bare_tasks")
        connection.execute("CHECKPOINT")


def drop_bare(dsn: str) -> None:
    """Or autovacuum would clean it while the next one is measured."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bare_tasks")
        connection.execute("CHECKPOINT")


def run_bare(world: World, index: int, barrier: Any, batch: int, seconds: float) -> Count:
    with psycopg.connect(
        world.site.dsn, autocommit=True, prepare_threshold=0, options=_OPTIONS
    ) as connection:

        def one() -> int:
            lease = uuid.uuid4()
            row = connection.execute(_CLAIM_ONE, [lease], binary=True).fetchone()
            if row is None:
                raise RuntimeError("the bare table ran empty: fill in more rows")
            return connection.execute(_COMPLETE_ONE, [*row, lease]).rowcount

        def many() -> int:
            lease = uuid.uuid4()
            rows = connection.execute(_CLAIM, [lease, batch], binary=True).fetchall()
            if not rows:
                raise RuntimeError("the bare table ran empty: fill in more rows")
            ids, attempts = [row[0] for row in rows], [row[1] for row in rows]
            return connection.execute(_COMPLETE, [ids, attempts, lease]).rowcount

        turn = one if batch == 1 else many
        for _ in range(3):
            turn()
        barrier.wait(60)
        number, started_at = 0, time.monotonic()
        while time.monotonic() - started_at < seconds:
            number += turn()
        return Count(number, started_at, time.monotonic())
