"""Registration reads the commits that it meets, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.commit_world import CommitWorld
from trace_core.database.state import OPTIONS
from trace_core.registry.commit_rows import SQL

LIVE = 20_000


@pytest.fixture
def full(fork: CommitWorld) -> CommitWorld:
    """Live ranges of ten, each of which was rewritten once."""
    _, version = fork.output("b")
    with psycopg.connect(fork.state.dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO commits (dataset_version, number, scope, range_start, range_end,"
            "   replaced_at, task_id, attempt, lease_sequence, output_index, input_pins,"
            "   registered_at)"
            " SELECT %s, n, 'p' || 10 * (n %% %s) || '-' || 10 * (n %% %s) + 9, 10 * (n %% %s),"
            "   10 * (n %% %s) + 9, CASE WHEN n < %s THEN n + %s END, %s, 1, 1, 0, '[]', %s"
            " FROM generate_series(0, %s) n",
            [version, *[LIVE] * 6, version, fork.clock.now(), 2 * LIVE - 1],
        )
        connection.execute("VACUUM ANALYZE")
    return fork


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _rows_read(world: CommitWorld, statement: str, params: dict[str, Any]) -> float:
    with psycopg.connect(world.state.dsn, options=OPTIONS, autocommit=True) as connection:
        ((plans,),) = connection.execute(
            "EXPLAIN (ANALYZE, FORMAT JSON) " + statement,  # type: ignore[arg-type]
            params,
        ).fetchall()
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in _nodes(plans[0]["Plan"])
        if node.get("Relation Name") == "commits"
    )


@pytest.mark.parametrize(
    ("scope", "start", "end"),
    [
        ("p0-9", 0, 9),
        ("p100005-100014", 100_005, 100_014),
        ("c7", 7, 7),
        ("c900000", 900_000, 900_000),
    ],
)
def test_a_scope_meets_its_neighbours_and_reads_no_others(
    full: CommitWorld, scope: str, start: int, end: int
) -> None:
    _, version = full.output("b")
    wanted = {
        "places": [0], "versions": [version], "scopes": [scope], "starts": [start], "ends": [end],
    }  # fmt: skip
    assert _rows_read(full, SQL["live_commits"], wanted) < 20


def test_a_commit_of_the_data_database_looks_at_what_it_meets_and_what_came_after(
    full: CommitWorld,
) -> None:
    _, version = full.output("b")
    params = {
        "dataset_version": version, "number": 2 * LIVE, "scope": "p0-9", "range_start": 0,
        "range_end": 9,
    }  # fmt: skip
    assert _rows_read(full, SQL["commits_around"], params) < 20
