"""Query plans of the hot path: they must not scan what grows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

from tests.factories import World
from trace_core.database import arrays
from trace_core.database.state import OPTIONS
from trace_core.kernel.ids import first_uuid7
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
    rows = _explain(world, seen["statement"], seen["params"], "EXPLAIN EXECUTE hot ({})")
    return "\n".join(row[0] for row in rows)


def _explain(
    world: World, statement: str, params: dict[str, Any], explain: LiteralString
) -> list[Any]:
    """The generic plan of a prepared statement, which is how connections run them."""
    with psycopg.connect(world.state.dsn, options=OPTIONS) as connection:
        arrays.register(connection)
        query = PostgresQuery(Transformer(connection))
        query.convert(statement, params)
        types = [_type(params[name]) for name in query._order or []]
        text = query.query.decode()
        connection.execute(f"PREPARE hot ({', '.join(types)}) AS {text}")  # type: ignore[arg-type]
        values = [sql.Literal(params[name]) for name in query._order or []]
        return connection.execute(sql.SQL(explain).format(sql.SQL(", ").join(values))).fetchall()


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


def _complete_tasks(world: World, made_at: datetime, count: int) -> None:
    """Completed attempts of tasks that were made at that moment."""
    first = first_uuid7(made_at).int
    with psycopg.connect(world.state.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, ended_at,"
            "                      lease_sequence)"
            " SELECT (%s || lpad(to_hex(n), 12, '0'))::uuid, 1, j.org_id, j.job_id, 'Completed',"
            "        true, %s, 1"
            "   FROM generate_series(1, %s) n, jobs j WHERE j.name = 'b'",
            [f"{first >> 64:016x}8000", made_at, count],
        )
        connection.execute("VACUUM ANALYZE")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def test_the_status_counts_the_last_day_and_reads_nothing_before_it(chain: World) -> None:
    now = chain.clock.now()
    _complete_tasks(chain, now - timedelta(days=60), 3000)
    _complete_tasks(chain, now - timedelta(days=3), 3000)
    _complete_tasks(chain, now - timedelta(hours=23), 20)
    _complete_tasks(chain, now - timedelta(minutes=1), 5)
    status = chain.views.status(chain.org)
    assert {each["job"]: each["completed_24h"] for each in status["jobs"]}["b"] == 25
    assert status["totals"]["completed_24h"] == 25
    params = {
        "org_id": chain.org,
        "since": first_uuid7(now - timedelta(hours=24)),
        "until": UUID(int=2**128 - 1),
    }
    explain: LiteralString = "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot ({})"
    ((plans,),) = _explain(chain, SQL["completed_since"], params, explain)
    scans = [
        node
        for node in _nodes(plans[0]["Plan"])
        if node.get("Relation Name", "").startswith("attempts") and node["Actual Loops"]
    ]
    assert {node["Relation Name"] for node in scans} >= {"attempts_202601"}
    assert not [node for node in scans if node["Node Type"] == "Seq Scan" and node["Actual Rows"]]
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in scans
    )
    assert read == 25, scans
