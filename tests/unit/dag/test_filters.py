"""Filters: one tree, one canonical text, one parameterised condition."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.dag import filters
from trace_core.dag.filter_parser import from_map, parse_text
from trace_core.dag.filter_postgres import to_postgres
from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    FilterInvalid,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
    fields_of,
    to_text,
)

fields = st.from_regex(filters.FIELD, fullmatch=True).filter(lambda x: x not in filters.KEYWORDS)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
integers = st.integers(-(10**30), 10**30)
decimals = st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=4)
kinds = [texts, integers, decimals]
literals = st.one_of(*kinds, st.booleans())


def same_kind(size: int, most: int) -> st.SearchStrategy[tuple[filters.Literal, ...]]:
    return st.one_of(*(st.lists(kind, min_size=size, max_size=most).map(tuple) for kind in kinds))


leaves = st.one_of(
    st.builds(Comparison, fields, st.sampled_from([Operator.EQUAL, Operator.NOT_EQUAL]), literals),
    st.builds(Comparison, fields, st.sampled_from(Operator), st.one_of(*kinds)),
    st.builds(Membership, fields, same_kind(1, 5), st.booleans()),
    st.builds(lambda name, ends: Between(name, *ends), fields, same_kind(2, 2)),
    st.builds(NullTest, fields, st.booleans()),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=12,
)
quick = settings(max_examples=150, deadline=None, database=None)


@quick
@given(predicates)
def test_the_canonical_text_parses_back_to_the_same_tree(tree: Predicate) -> None:
    again = parse_text(to_text(tree))
    assert again == tree
    # Python takes 1 for True and 5 for Decimal(5); their spelling does not.
    assert to_text(again) == to_text(tree)


@quick
@given(st.text(max_size=60))
def test_any_text_is_a_predicate_or_is_refused_with_a_place_inside_it(text: str) -> None:
    try:
        parse_text(text)
    except FilterInvalid as error:
        assert 0 <= error.offset <= len(text)
        assert error.reason
        assert error.suggestion


@quick
@given(
    st.lists(
        st.sampled_from(
            ["a", "b", "=", "<>", "<", "(", ")", ",", "AND", "or", "NOT", "IN", "BETWEEN", "IS",
             "NULL", "TRUE", "1", "-2.5", "'x'", "'it''s'"]
        ),
        max_size=14,
    )
)  # fmt: skip
def test_any_row_of_words_is_a_predicate_or_is_refused(words: list[str]) -> None:
    text = " ".join(words)
    try:
        tree = parse_text(text)
    except FilterInvalid as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert parse_text(to_text(tree)) == tree


@quick
@given(predicates)
def test_a_condition_for_postgres_holds_nothing_of_the_user_but_checked_names(
    tree: Predicate,
) -> None:
    sql, parameters = to_postgres(tree, relation="logs")
    assert set(re.findall(r"%\((\w+)\)s", sql)) == set(parameters)
    rest = re.sub(r"%\(where_\d+\)s", "", sql)
    rest = re.sub(r'"logs"\."[a-z_][a-z0-9_]{0,62}"', "", rest)
    assert re.fullmatch(r"(?: |\(|\)|,|=|<|>|AND|OR|NOT|IN|BETWEEN|IS|NULL)*", rest)
    assert len(parameters) == to_text_literals(tree)


def to_text_literals(tree: Predicate) -> int:
    match tree:
        case Comparison():
            return 1
        case Membership(_, values, _):
            return len(values)
        case Between():
            return 2
        case NullTest():
            return 0
        case And(parts) | Or(parts):
            return sum(to_text_literals(part) for part in parts)
        case Not(part):
            return to_text_literals(part)


@pytest.mark.parametrize(
    ("text", "sql", "parameters"),
    [
        ("a = 1", '"a" = %(where_0)s', {"where_0": 1}),
        ("a != 'it''s'", '"a" <> %(where_0)s', {"where_0": "it's"}),
        ("a <> TRUE", '"a" <> %(where_0)s', {"where_0": True}),
        ("a >= -1.50", '"a" >= %(where_0)s', {"where_0": Decimal("-1.50")}),
        (
            "a in (1, 2) and not b is null",
            '("a" IN (%(where_0)s, %(where_1)s) AND (NOT "b" IS NULL))',
            {"where_0": 1, "where_1": 2},
        ),
        (
            "a BETWEEN 1 AND 2 OR b NOT IN ('x')",
            '("a" BETWEEN %(where_0)s AND %(where_1)s OR "b" NOT IN (%(where_2)s))',
            {"where_0": 1, "where_1": 2, "where_2": "x"},
        ),
        (
            "(a = 1 OR b = 2) AND c = 3",
            '(("a" = %(where_0)s OR "b" = %(where_1)s) AND "c" = %(where_2)s)',
            {"where_0": 1, "where_1": 2, "where_2": 3},
        ),
        (
            f"amount > {2**256 - 1}",
            '"amount" > %(where_0)s',
            {"where_0": 2**256 - 1},
        ),
    ],
)
def test_a_predicate_compiles_to_postgres(
    text: str, sql: str, parameters: dict[str, object]
) -> None:
    assert to_postgres(parse_text(text)) == (sql, parameters)


def test_and_binds_closer_than_or_and_not_closest() -> None:
    assert to_text(parse_text("not a = 1 and b = 2 or c = 3")) == "NOT a = 1 AND b = 2 OR c = 3"
    assert isinstance(parse_text("a = 1 AND b = 2 OR c = 3"), Or)


def test_a_map_means_that_every_field_has_its_value() -> None:
    tree = from_map({"a": 1, "b": ["x", "y"], "c": None, "d": Decimal("1.5"), "e": True})
    assert to_text(tree) == "a = 1 AND b IN ('x', 'y') AND c IS NULL AND d = 1.5 AND e = TRUE"
    assert list(fields_of(tree)) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("text", "offset", "part_of_reason"),
    [
        ("", 0, "empty"),
        ("a", 1, "a comparison"),
        ("a == 1", 2, "a comparison"),
        ("a = b", 4, "a value"),
        ("a = NULL", 4, "a value"),
        ("1 = a", 0, "a field name"),
        ("a = 1 b = 2", 6, "AND or OR"),
        ("a = 1; DROP TABLE x", 5, "one condition"),
        ('a = "x"', 4, "not used"),
        ("a = 'x", 4, "not closed"),
        ("A = 1", 0, "field name"),
        ("in = 1", 0, "a field name"),
        ("a IN ()", 6, "a value"),
        ("a IN (1, 'x')", 5, "mixed"),
        ("a BETWEEN 1 OR 2", 12, "AND"),
        ("a BETWEEN TRUE AND FALSE", 10, "no order"),
        ("a < TRUE", 4, "no order"),
        ("a IS 1", 5, "NULL"),
        ("a NOT = 1", 6, "IN or BETWEEN"),
        ("(a = 1", 6, "`)`"),
        ("a = 1)", 5, "AND or OR"),
        ("a = 1e5", 4, "not a number"),
        ("a = 1 -- x", 6, "not a number"),
        ("a = 1 /* x */", 6, "not used"),
        ("a = 'x' || b", 8, "not used"),
        ("pg_sleep(10) = 1", 0, "functions"),
        ("a = $1", 4, "not used"),
        ("a = %(x)s", 4, "not used"),
        ("(" * 33 + "a = 1" + ")" * 33, 32, "nested"),
        ("NOT " * 33 + "a = 1", 128, "nested"),
        ("a = " + "9" * 79, 4, "digits"),
        ("a = '" + "x" * 1025 + "'", 4, "characters"),
        ("a = 1 OR " * 1001 + "a = 1", 9004, "values"),
        ("a" * 64 + " = 1", 0, "field name"),
        ("a = 1\u00a0", 5, "not used"),
    ],
)
def test_a_wrong_predicate_is_refused_at_its_exact_place(
    text: str, offset: int, part_of_reason: str
) -> None:
    with pytest.raises(FilterInvalid) as caught:
        parse_text(text)
    assert caught.value.offset == offset
    assert part_of_reason in caught.value.reason


@pytest.mark.parametrize("name", ['a"; DROP TABLE x; --', "A", "", "a b", "a\n", "%(x)s"])
def test_a_name_that_is_not_a_field_never_reaches_sql(name: str) -> None:
    with pytest.raises(FilterInvalid):
        Comparison(name, Operator.EQUAL, 1)
    with pytest.raises(FilterInvalid):
        to_postgres(NullTest("a"), relation=name or " ")
