"""Filters over Arrow find the rows that Postgres finds, with NULLs and numbers of any width."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.dag.filter_arrow import matching
from trace_core.dag.filter_postgres import to_postgres
from trace_core.dag.filter_types import bind
from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
)
from trace_core.dag.model import Column
from trace_core.storage.rows import arrow_schema, conformed

COLUMNS = (
    Column("small", "smallint"),
    Column("whole", "bigint"),
    Column("money", "numeric(9, 2)"),
    Column("amount", "numeric(78)"),
    Column("any_number", "numeric"),
    Column("ratio", "double precision"),
    Column("rough", "real"),
    Column("name", "text"),
    Column("live", "boolean"),
    Column("at", "timestamptz"),
    Column("day", "date"),
    Column("raw", "bytea"),
    Column("key", "uuid"),
)
TYPES = {column.name: column.type for column in COLUMNS}
START = datetime(2026, 1, 1, tzinfo=UTC)
UINT256 = 2**256 - 1

VALUES: dict[str, list[Any]] = {
    "small": [0, 1, -1, 32767, -32768],
    "whole": [0, 1, -1, 2**63 - 1, -(2**63), 10143],
    "money": [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("9999999.99")],
    "amount": ["0", "1", str(UINT256), str(UINT256 - 1), "-5"],
    "any_number": ["0", "1.5", "-1.5", "1e-30", str(UINT256)],
    "ratio": [0.0, -0.0, 1.5, 0.1, float("nan"), float("inf"), float("-inf"), 1e300],
    "rough": [0.0, 1.5, 0.1, float("nan"), float("inf")],
    "name": ["", "a", "B", "b", "é", "z\U0001f600", "it's", 'q"%(x)s'],
    "live": [True, False],
    "at": [START, START + timedelta(microseconds=1), START - timedelta(days=700_000)],
    "day": [date(2026, 1, 1), date(1, 1, 1), date(9999, 12, 31)],
    "raw": [b"", b"\0", b"\xff\0", b"ab"],
    "key": ["00000000-0000-7000-8000-000000000001", "ffffffff-0000-7000-8000-000000000001"],
}
numbers = st.one_of(
    st.sampled_from([0, 1, -1, 32767, 32768, -32769, 2**63 - 1, 2**63, -(2**63) - 1, UINT256]),
    st.sampled_from([Decimal("0.0"), Decimal("1.5"), Decimal("-1.5"), Decimal("0.1")]),
    st.sampled_from([Decimal("1.505"), Decimal("9999999.99"), Decimal("-0.001"), 10**77]),
    st.integers(-(10**20), 10**20),
    st.decimals(-100, 100, places=3, allow_nan=False),
)
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("small", "whole", "money", "amount", "any_number"), numbers),
    **dict.fromkeys(("ratio", "rough"), numbers),
    "name": st.sampled_from(VALUES["name"]),
    "at": st.sampled_from(
        [*(each.isoformat() for each in VALUES["at"]), "2026-01-01", "2026-01-01T02:00:00+02:00"]
    ),
    "day": st.sampled_from([each.isoformat() for each in VALUES["day"]]),
    "raw": st.sampled_from(["\\x", "\\x00", "\\xFF00", "\\x6162"]),
    "key": st.sampled_from([VALUES["key"][0], VALUES["key"][1].upper()]),
}


def on(name: str) -> st.SearchStrategy[Predicate]:
    literal = LITERALS[name]
    return st.one_of(
        st.builds(Comparison, st.just(name), st.sampled_from(Operator), literal),
        st.builds(
            Membership,
            st.just(name),
            st.lists(literal, min_size=1, max_size=3).map(tuple),
            st.booleans(),
        ),
        st.builds(Between, st.just(name), literal, literal),
        st.builds(NullTest, st.just(name), st.booleans()),
    )


leaves = st.one_of(
    *(on(name) for name in LITERALS),
    st.builds(
        Comparison,
        st.just("live"),
        st.sampled_from([Operator.EQUAL, Operator.NOT_EQUAL]),
        st.booleans(),
    ),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)


def _table() -> pa.Table:
    longest = max(len(values) for values in VALUES.values())
    columns = {
        name: [None, *values] + [values[i % len(values)] for i in range(longest - len(values))]
        for name, values in VALUES.items()
    }
    # Two kinds of neighbours for each value.
    columns = {
        name: values + values[i % 5 :] + values[: i % 5]
        for i, (name, values) in enumerate(columns.items())
    }
    given = {
        "amount": pa.string(),
        "any_number": pa.string(),
        "key": pa.string(),
    }
    schema = arrow_schema(COLUMNS)
    table = pa.table(
        {
            name: pa.array(values, given.get(name, schema.field(name).type))
            for name, values in columns.items()
        }
    )
    return pa.Table.from_batches(conformed(table, COLUMNS))


@pytest.fixture(scope="module")
def stored(
    postgres_server: Any,
) -> Iterator[tuple[psycopg.Connection[Any], pa.RecordBatch]]:
    table = _table()
    dsn = postgres_server.empty()
    with psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC") as connection:
        listed = ", ".join(
            f'"{c.name}" {c.type}' + (' COLLATE "C"' if c.type == "text" else "") for c in COLUMNS
        )
        connection.execute(f"CREATE TABLE t (n int, {listed})")  # type: ignore[arg-type]
        rows = [
            (n, *(row[column.name] for column in COLUMNS))
            for n, row in enumerate(table.to_pylist())
        ]
        marks = ", ".join(["%s"] * (len(COLUMNS) + 1))
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # type: ignore[arg-type]  # noqa: S608
        yield connection, table.combine_chunks().to_batches()[0]
    postgres_server.drop(dsn)


@settings(max_examples=400, deadline=None, database=None)
@given(predicate=predicates)
def test_arrow_and_postgres_find_the_same_rows(
    stored: tuple[psycopg.Connection[Any], pa.RecordBatch], predicate: Predicate
) -> None:
    connection, batch = stored
    condition, params = to_postgres(bind(predicate, TYPES))
    statement = f"SELECT n, ({condition}) FROM t ORDER BY n"  # noqa: S608
    expected = [row[1] for row in connection.execute(statement, params).fetchall()]  # type: ignore[arg-type]
    assert matching(predicate, batch, TYPES).to_pylist() == expected
