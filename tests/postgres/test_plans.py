"""Query plans of the hot path: they must not scan what grows."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

from tests.factories import World
from trace_core.database import arrays
from trace_core.database.state import OPTIONS
from trace_core.tasks.statements import SQL

GROWING = ("tasks", "attempts", "events", "task_inputs", "task_outputs", "ready")


class Recorded(Exception):
    pass


def _plan(world: World, call: Any) -> str:
    """The generic plan of the one statement that `call` sends."""
    seen: dict[str, Any] = {}

    def record(_name: str, statement: str, params: dict[str, Any]) -> list[Any]:
        seen.update(statement=statement, params=params)
        raise Recorded

    original = world.state.write
    world.state.write = record  # type: ignore[method-assign]
    try:
        call()
    except Recorded:
        pass
    finally:
        world.state.write = original  # type: ignore[method-assign]
    with psycopg.connect(world.state.dsn, options=OPTIONS) as connection:
        arrays.register(connection)
        query = PostgresQuery(Transformer(connection))
        query.convert(seen["statement"], seen["params"])
        types = [_type(seen["params"][name]) for name in query._order or []]
        text = query.query.decode()
        connection.execute(f"PREPARE hot ({', '.join(types)}) AS {text}")  # type: ignore[arg-type]
        values = [sql.Literal(seen["params"][name]) for name in query._order or []]
        execute = sql.SQL("EXPLAIN EXECUTE hot ({})").format(sql.SQL(", ").join(values))
        return "\n".join(row[0] for row in connection.execute(execute))


def _fill(world: World) -> None:
    """Finished tasks and fresh statistics, which is when a planner takes to scanning."""
    with psycopg.connect(world.state.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tasks (task_id, org_id, job_id, priority, created_at)"
            " SELECT ('019bc186-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, t.org_id,"
            "        t.job_id, t.priority, t.created_at"
            "   FROM generate_series(1, 5000) n, (SELECT * FROM tasks LIMIT 1) t"
        )
        connection.execute("VACUUM ANALYZE")


def _type(value: Any) -> str:
    names = {"datetime": "timestamptz", "timedelta": "interval", "int": "integer", "UUID": "uuid"}
    return names.get(type(value).__name__, "unknown")


@pytest.mark.parametrize("call", ["accept", "claim", "complete"])
def test_the_hot_path_scans_nothing_that_grows(chain: World, call: str) -> None:
    source = chain.feed(1)
    claim = chain.claim_one()
    calls = {
        "accept": lambda: chain.accept(source, [chain.event("a", 2)]),
        "claim": lambda: chain.claim(10),
        "complete": lambda: chain.complete(claim, events=[chain.event("b", 1)]),
    }
    _fill(chain)
    plan = _plan(chain, calls[call])
    for table in GROWING:
        assert f"Seq Scan on {table}" not in plan, plan
    assert len(SQL[call]) < 4096, "the driver forgets longer statements between calls"
