"""Objects are skipped only when no row in them can be of interest."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.dag.filter_arrow import matching
from trace_core.dag.filter_parser import parse_text
from trace_core.dag.filter_types import bind
from trace_core.dag.filters import Between, Comparison, Membership, Not, Operator, Or, Predicate
from trace_core.dag.model import Column
from trace_core.storage.model import StoredObject
from trace_core.storage.rows import arrow_schema, conformed
from trace_core.storage.statistics import extremes, may_hold, may_overlap

COLUMNS = (
    Column("n", "bigint"),
    Column("amount", "numeric(78)"),
    Column("money", "numeric(9, 2)"),
    Column("name", "text"),
    Column("ratio", "double precision"),
    Column("at", "timestamptz"),
    Column("day", "date"),
)
TYPES = {column.name: column.type for column in COLUMNS}
START = datetime(2026, 1, 1, tzinfo=UTC)
small = st.integers(-4, 4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": small,
    "amount": small.map(lambda n: str(n * 10**70)),
    "money": small.map(str),
    "name": st.text("aBé😀", max_size=3),
    "ratio": st.sampled_from([0.0, 1.5, float("nan"), float("inf")]),
    "at": small.map(lambda n: START + timedelta(days=n)),
    "day": small.map(lambda n: date(2026, 1, 10) + timedelta(days=n)),
}
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "n": small,
    "amount": small.map(lambda n: n * 10**70),
    "money": small,
    "name": VALUES["name"],
    "ratio": small,
    "at": VALUES["at"].map(datetime.isoformat),
    "day": VALUES["day"].map(date.isoformat),
}
rows = st.lists(
    st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()}), max_size=4
)


def _on(name: str) -> st.SearchStrategy[Predicate]:
    literal = LITERALS[name]
    return st.one_of(
        st.builds(Comparison, st.just(name), st.sampled_from(Operator), literal),
        st.builds(Between, st.just(name), literal, literal),
        st.builds(
            Membership, st.just(name), st.lists(literal, min_size=1).map(tuple), st.booleans()
        ),
    )


leaves = st.one_of(*(_on(name) for name in LITERALS))
predicates = st.one_of(
    leaves, st.builds(Not, leaves), st.builds(lambda a, b: Or((a, b)), leaves, leaves)
)


def _stored(table: pa.Table) -> StoredObject:
    return StoredObject("k", 1, table.num_rows, "0" * 64, *extremes(table, COLUMNS))


def _table(given_rows: list[dict[str, Any]]) -> pa.Table:
    schema = arrow_schema(COLUMNS)
    given = {"money": pa.string()}
    table = pa.table(
        {
            each.name: pa.array(
                [row[each.name] for row in given_rows], given.get(each.name, each.type)
            )
            for each in schema
        }
    )
    return pa.Table.from_batches(conformed(table, COLUMNS), schema)


@settings(max_examples=500, deadline=None, database=None)
@given(rows, predicates)
def test_an_object_with_a_row_that_holds_is_never_skipped(
    given_rows: list[dict[str, Any]], predicate: Predicate
) -> None:
    table = _table(given_rows)
    batches = table.combine_chunks().to_batches()
    holds = any(pc.any(matching(predicate, batch, TYPES), min_count=0).as_py() for batch in batches)
    if holds:
        assert may_hold(bind(predicate, TYPES), _stored(table), TYPES)


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("n = 7", False),
        ("n = 4", True),
        ("n < 5", True),
        ("n <= 5", False),
        ("n > 9", True),
        ("n IN (1, 2)", True),
        ("n NOT IN (5)", False),
        ("n BETWEEN 10 AND 20", True),
        ("n = 4 OR n = 7", False),
        ("n = 7 AND name = 'zz'", True),
        ("amount > 9", True),
        ("amount = 5", False),
        ("at < '2025-01-01'", True),
        ("day = '2026-01-10'", False),
        ("day = '2026-01-11'", True),
        ("ratio = 99", False),
        ("n IS NULL", False),
        ("NOT n = 4", False),
    ],
)
def test_what_is_skipped(text: str, skipped: bool) -> None:
    row = {"money": "1", "name": "m", "ratio": 1.5, "at": START, "day": date(2026, 1, 10)}
    table = _table([{**row, "n": n, "amount": str(n)} for n in (5, 9)])
    assert may_hold(bind(parse_text(text), TYPES), _stored(table), TYPES) is not skipped


def test_what_a_stranger_wrote_as_statistics_skips_nothing() -> None:
    strange = StoredObject("k", 1, 1, "0" * 64, {"day": "soon", "n": "x"}, {"day": "late", "n": 1})
    for text in ("day = '2026-01-10'", "n = 5"):
        assert may_hold(bind(parse_text(text), TYPES), strange, TYPES)
    assert may_overlap(strange, "n", 5, 6)
    assert may_overlap(strange, "other", 5, 6)


def test_long_texts_are_left_out() -> None:
    long = {"n": 1, "amount": "1", "money": "1", "name": "x" * 200, "ratio": 1.0}
    table = _table([{**long, "at": START, "day": date(2026, 1, 1)}])
    assert "name" not in _stored(table).minimum
