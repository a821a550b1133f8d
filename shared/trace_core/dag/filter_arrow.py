"""The filter tree -> which rows of an Arrow batch hold, with the same meaning as in Postgres.

A comparison with NULL is neither true nor false. NaN equals itself and is greater than any number.
Numbers are compared exactly, whatever width the column has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_core.dag.filter_types import bind, instant
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
)

_COMPUTE = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_OR_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_OR_EQUAL: pc.greater_equal,
}
_PYTHON = {
    Operator.EQUAL: Decimal.__eq__,
    Operator.NOT_EQUAL: Decimal.__ne__,
    Operator.LESS: Decimal.__lt__,
    Operator.LESS_OR_EQUAL: Decimal.__le__,
    Operator.GREATER: Decimal.__gt__,
    Operator.GREATER_OR_EQUAL: Decimal.__ge__,
}
_INTEGER_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
_SCALE = re.compile(r"numeric\(([0-9]+)(?:, ?([0-9]+))?\)")


def matching(predicate: Predicate, batch: pa.RecordBatch, types: Mapping[str, str]) -> Any:
    """A boolean for each row, NULL where SQL has none; `types` are the columns' own."""
    return _mask(bind(predicate, types), batch, types)


def _mask(predicate: Predicate, batch: pa.RecordBatch, types: Mapping[str, str]) -> Any:
    match predicate:
        case And(parts):
            found = _mask(parts[0], batch, types)
            for part in parts[1:]:
                found = pc.and_kleene(found, _mask(part, batch, types))
            return found
        case Or(parts):
            found = _mask(parts[0], batch, types)
            for part in parts[1:]:
                found = pc.or_kleene(found, _mask(part, batch, types))
            return found
        case Not(part):
            return pc.invert(_mask(part, batch, types))
        case NullTest(field, negated):
            column = batch.column(field)
            # By default Arrow takes NaN for a value, as Postgres does.
            return pc.is_valid(column) if negated else pc.is_null(column)
        case Comparison(field, operator, value):
            return _compare(batch.column(field), types[field], operator, value)
        case Between(field, low, high):
            column, kind = batch.column(field), types[field]
            return pc.and_kleene(
                _compare(column, kind, Operator.GREATER_OR_EQUAL, low),
                _compare(column, kind, Operator.LESS_OR_EQUAL, high),
            )
        case Membership(field, values, negated):
            column, kind = batch.column(field), types[field]
            found = _compare(column, kind, Operator.EQUAL, values[0])
            for value in values[1:]:
                found = pc.or_kleene(found, _compare(column, kind, Operator.EQUAL, value))
            return pc.invert(found) if negated else found


def _compare(column: Any, kind: str, operator: Operator, value: Literal) -> Any:
    if isinstance(value, str):
        return _COMPUTE[operator](column, _text_scalar(column.type, kind, value))
    if isinstance(value, bool):
        return _COMPUTE[operator](column, pa.scalar(value))
    if kind in ("real", "double precision"):
        return _compare_floats(column, operator, float(value))
    if pa.types.is_string(column.type):
        return _compare_exact_text(column, operator, Decimal(value))
    return _compare_exactly(column, kind, operator, Fraction(value))


def _text_scalar(kind: pa.DataType, name: str, value: str) -> pa.Scalar:
    match name:
        case "timestamptz":
            return pa.scalar(instant(value), kind)
        case "date":
            return pa.scalar(date.fromisoformat(value), kind)
        case "bytea":
            return pa.scalar(bytes.fromhex(value[2:]), kind)
        case _:
            return pa.scalar(value, kind)


def _compare_floats(column: Any, operator: Operator, value: float) -> Any:
    column = column.cast(pa.float64())
    found = _COMPUTE[operator](column, pa.scalar(value))
    if operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL):
        return pc.or_kleene(found, pc.is_nan(column))
    return found


def _compare_exact_text(column: Any, operator: Operator, value: Decimal) -> Any:
    holds = _PYTHON[operator]
    values = [None if each is None else holds(Decimal(each), value) for each in column.to_pylist()]
    return pa.array(values, pa.bool_())


def _compare_exactly(column: Any, kind: str, operator: Operator, value: Fraction) -> Any:
    """By whole multiples of the column's last digit: the literal's floor is one of them."""
    match = _SCALE.fullmatch(kind)
    scale = int(match[2] or 0) if match else 0
    multiples = value * 10**scale
    least = floor(multiples)
    exact = least == multiples
    if not exact:
        match operator:
            case Operator.EQUAL:
                return _constant(column, False)
            case Operator.NOT_EQUAL:
                return _constant(column, True)
            case Operator.LESS:
                operator = Operator.LESS_OR_EQUAL
            case Operator.GREATER_OR_EQUAL:
                operator = Operator.GREATER
            case _:
                pass
    bound = 10 ** int(match[1]) - 1 if match else 2 ** _INTEGER_BITS[kind] - 1
    lowest = -bound if match else -bound - 1
    if not lowest <= least <= bound:
        above = least > bound
        smaller = operator in (Operator.LESS, Operator.LESS_OR_EQUAL)
        greater = operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL)
        holds = (above and smaller) or (not above and greater) or operator is Operator.NOT_EQUAL
        return _constant(column, holds)
    # Not by arithmetic, which rounds to the precision of the decimal context.
    whole = Decimal(f"{least}E-{scale}") if match else least
    return _COMPUTE[operator](column, pa.scalar(whole, column.type))


def _constant(column: Any, value: bool) -> Any:
    """The same for every row that has a value."""
    return pc.if_else(pc.is_valid(column), pa.scalar(value), pa.scalar(None, pa.bool_()))
