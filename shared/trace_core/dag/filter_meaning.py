"""One form for filters that mean the same, so that another spelling is no other filter."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    Literal,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
    to_text,
)

_EQUALITY = (Operator.EQUAL, Operator.NOT_EQUAL)


def meaning(predicate: Predicate) -> Predicate:
    """The same condition with sorted parts, each once, and one word where there are two.

    It holds for the same rows, empty fields included. Filters of one meaning may still keep two
    forms (nothing is proved here); filters of two meanings never share one.
    """
    match predicate:
        case Comparison(field, operator, value) if operator in _EQUALITY:
            return Membership(field, (_value(value),), operator is Operator.NOT_EQUAL)
        case Comparison(field, operator, value):
            return Comparison(field, operator, _value(value))
        case Membership(field, values, negated):
            # By kind and value: `'1'` is not `1`.
            distinct = {(type(value), value): value for value in map(_value, values)}
            return Membership(field, tuple(sorted(distinct.values(), key=_sort_key)), negated)
        case Between(field, low, high):
            return meaning(
                And(
                    (
                        Comparison(field, Operator.GREATER_OR_EQUAL, low),
                        Comparison(field, Operator.LESS_OR_EQUAL, high),
                    )
                )
            )
        case NullTest():
            return predicate
        case And(parts):
            distinct_parts = _parts(And, parts)
            return distinct_parts[0] if len(distinct_parts) == 1 else And(distinct_parts)
        case Or(parts):
            distinct_parts = _parts(Or, parts)
            return distinct_parts[0] if len(distinct_parts) == 1 else Or(distinct_parts)
        case Not(part):
            return _negated(meaning(part))


def _negated(part: Predicate) -> Predicate:
    """An empty field makes both a test and its opposite unknown, so these are exact."""
    match part:
        case Membership(field, values, negated):
            return Membership(field, values, not negated)
        case NullTest(field, negated):
            return NullTest(field, not negated)
        case Not(inner):
            return inner
    return Not(part)


def _parts(kind: type[And] | type[Or], parts: Iterable[Predicate]) -> tuple[Predicate, ...]:
    flat: dict[str, Predicate] = {}
    for part in map(meaning, parts):
        inner = part.parts if isinstance(part, And | Or) and isinstance(part, kind) else (part,)
        flat.update((to_text(each), each) for each in inner)
    return tuple(flat[text] for text in sorted(flat))


def _value(value: Literal) -> Literal:
    return value.normalize() if isinstance(value, Decimal) else value


def _sort_key(value: Literal) -> tuple[str, str]:
    return type(value).__name__, str(value)
