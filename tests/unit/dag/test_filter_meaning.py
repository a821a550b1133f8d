"""Filters that mean the same get one form; filters that do not never share one."""

from __future__ import annotations

import operator
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.dag.filter_meaning import meaning
from trace_core.dag.filter_parser import from_map, parse_text
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
    to_text,
)

FIELDS = ("a", "b")
values = st.integers(0, 3)
leaves = st.one_of(
    st.builds(Comparison, st.sampled_from(FIELDS), st.sampled_from(Operator), values),
    st.builds(
        Membership,
        st.sampled_from(FIELDS),
        st.lists(values, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(Between, st.sampled_from(FIELDS), values, values),
    st.builds(NullTest, st.sampled_from(FIELDS), st.booleans()),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=8,
)
Row = dict[str, int | None]
ROWS: list[Row] = [{"a": a, "b": b} for a in (None, 0, 1, 2, 3) for b in (None, 0, 1, 2, 3)]
_TESTS = {
    Operator.EQUAL: operator.eq,
    Operator.NOT_EQUAL: operator.ne,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}


def holds(predicate: Predicate, row: Row) -> bool | None:
    """As SQL has it: true, false or unknown."""
    match predicate:
        case NullTest(field, negated):
            return (row[field] is None) is not negated
        case Comparison(field, sign, value):
            return None if row[field] is None else bool(_TESTS[sign](row[field], value))
        case Membership(field, listed, negated):
            return None if row[field] is None else (row[field] in listed) is not negated
        case Between(field, low, high):
            given_value = row[field]
            return None if given_value is None else bool(low <= given_value <= high)  # type: ignore[operator]
        case Not(part):
            inner = holds(part, row)
            return None if inner is None else not inner
        case And(parts):
            found = [holds(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [holds(part, row) for part in parts]
            return True if True in found else None if None in found else False


@settings(max_examples=300, deadline=None, database=None)
@given(predicates)
def test_the_form_holds_for_the_same_rows(tree: Predicate) -> None:
    form = meaning(tree)
    assert [holds(tree, row) for row in ROWS] == [holds(form, row) for row in ROWS]
    assert meaning(form) == form
    assert parse_text(to_text(form))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 AND b = 2", "b=2 and a=1"),
        ("a = 1 OR b = 2", "b = 2 OR a = 1 OR b = 2"),
        ("a IN (2, 1, 2)", "a IN (1, 2)"),
        ("a = 1", "a IN (1)"),
        ("a <> 1", "NOT a = 1"),
        ("NOT (NOT a < 1)", "a < 1"),
        ("a BETWEEN 1 AND 2", "a <= 2 AND a >= 1"),
        ("a = 1 AND (b = 2 AND c = 3)", "(c = 3 AND a = 1) AND b = 2"),
        ("a = 1.50", "a = 1.5"),
        ("NOT (a IS NULL)", "a IS NOT NULL"),
    ],
)
def test_other_spellings_of_one_meaning_have_one_form(one: str, other: str) -> None:
    assert meaning(parse_text(one)) == meaning(parse_text(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = '1'"),
        ("a = 1 AND b = 2", "a = 1 OR b = 2"),
        ("a = 1 AND (b = 2 OR c = 3)", "(a = 1 AND b = 2) OR c = 3"),
        ("a < 1", "a <= 1"),
        ("a = TRUE", "a = 1"),
        ("a = 'x'", "a = 'X'"),
        ("a BETWEEN 1 AND 2", "a BETWEEN 2 AND 1"),
    ],
)
def test_other_meanings_have_other_forms(one: str, other: str) -> None:
    assert to_text(meaning(parse_text(one))) != to_text(meaning(parse_text(other)))


def test_the_order_of_a_map_does_not_matter() -> None:
    one = from_map({"a": 1, "b": [Decimal("1.0"), Decimal("2.5")]})
    other = from_map({"b": [Decimal("2.50"), Decimal("1.0")], "a": 1})
    assert meaning(one) == meaning(other)
