"""Input filters, compiled and run: Postgres must find the rows that the predicate means."""

from __future__ import annotations

import psycopg
import pytest

from trace_core.dag.filter_parser import from_map, parse_text
from trace_core.dag.filter_postgres import to_postgres

ROWS = [
    (1, "critical", 10143, True, None),
    (2, "warning", 10143, False, "it's"),
    (3, "critical", 1, None, 'a "quoted" name'),
    (4, None, 2**62, True, "x'); DROP TABLE alerts; --"),
]


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ("severity = 'critical' AND chain_id = 10143", [1]),
        ("severity = 'critical' OR severity = 'warning'", [1, 2, 3]),
        ("NOT severity = 'critical'", [2]),
        ("severity IS NULL", [4]),
        ("severity IS NOT NULL AND chain_id <> 10143", [3]),
        ("chain_id IN (1, 4611686018427387904)", [3, 4]),
        ("chain_id NOT IN (1)", [1, 2, 4]),
        ("chain_id BETWEEN 1 AND 10143", [1, 2, 3]),
        ("note = 'it''s'", [2]),
        ("note = 'x''); DROP TABLE alerts; --'", [4]),
        ("live = TRUE", [1, 4]),
        ("(chain_id > 1 AND chain_id <= 10143) AND NOT (live = TRUE)", [2]),
    ],
)
def test_a_predicate_finds_the_rows_that_it_means(
    empty_dsn: str, predicate: str, found: list[int]
) -> None:
    assert _found(empty_dsn, parse_text(predicate)) == found


def test_a_map_is_all_of_its_conditions(empty_dsn: str) -> None:
    assert _found(
        empty_dsn, from_map({"severity": ["critical", "warning"], "chain_id": 10143})
    ) == [
        1,
        2,
    ]


def _found(dsn: str, predicate: object) -> list[int]:
    text, params = to_postgres(predicate)  # type: ignore[arg-type]
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE TABLE alerts (id int, severity text, chain_id bigint, live boolean, note text)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO alerts VALUES (%s, %s, %s, %s, %s)", ROWS)
        rows = connection.execute(
            f"SELECT id FROM alerts WHERE {text} ORDER BY id",  # type: ignore[arg-type]  # noqa: S608
            params,
        ).fetchall()
    return [row[0] for row in rows]
