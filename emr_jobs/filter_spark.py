"""The filter tree -> a Spark column, with the same meaning as in Postgres and over Arrow.

A comparison with NULL is neither true nor false. NaN equals itself and is greater than any number,
which is Spark's own view too. Numbers are compared exactly, whatever width the column has; a
literal is brought to the column's type, so that the scan can leave out row groups by it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import floor

from pyspark.sql import Column
from pyspark.sql import functions as F

from emr_jobs.columns import is_exact_text, numeric_size, spark_type
from trace_core.dag.filter_parser import parse_text
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

_INTEGER_BITS = {"smallint": 15, "integer": 31, "bigint": 63}


def condition(text: str, types: Mapping[str, str]) -> Column:
    """The predicate of an input's `where`; raises `FilterInvalid`."""
    return compiled(parse_text(text), types)


def compiled(predicate: Predicate, types: Mapping[str, str]) -> Column:
    return _column(bind(predicate, types), types)


def _column(predicate: Predicate, types: Mapping[str, str]) -> Column:
    match predicate:
        case And(parts):
            return functools.reduce(Column.__and__, [_column(part, types) for part in parts])
        case Or(parts):
            return functools.reduce(Column.__or__, [_column(part, types) for part in parts])
        case Not(part):
            return ~_column(part, types)
        case NullTest(field, negated):
            return F.col(field).isNotNull() if negated else F.col(field).isNull()
        case Comparison(field, operator, value):
            return _compare(field, types[field], operator, value)
        case Between(field, low, high):
            return _compare(field, types[field], Operator.GREATER_OR_EQUAL, low) & _compare(
                field, types[field], Operator.LESS_OR_EQUAL, high
            )
        case Membership(field, values, negated):
            found = _member(field, types[field], values)
            return ~found if negated else found


def _member(field: str, kind: str, values: tuple[Literal, ...]) -> Column:
    if kind in ("text", "uuid", "boolean"):
        return F.col(field).isin(*values)
    each = [_compare(field, kind, Operator.EQUAL, value) for value in values]
    return functools.reduce(Column.__or__, each)


def _compare(field: str, kind: str, operator: Operator, value: Literal) -> Column:
    column = F.col(field)
    if isinstance(value, str):
        return _apply(operator, column, _text_literal(kind, value))
    if isinstance(value, bool):
        return _apply(operator, column, F.lit(value))
    if kind in ("real", "double precision"):
        # Not rounded to the width of the column: 0.1 is no `real`. And never left to the scan: it
        # goes by the least and greatest values of objects, of which some writers leave NaN out.
        exact = F.nanvl(column.cast("double"), F.lit(float("nan")))
        return _apply(operator, exact, F.lit(float(value)))
    if is_exact_text(kind):
        return _compare_exact_text(column, operator, Fraction(value))
    return _compare_exactly(column, kind, operator, Fraction(value))


def _text_literal(kind: str, value: str) -> Column:
    match kind:
        case "timestamptz":
            return F.lit(instant(value))
        case "date":
            return F.lit(date.fromisoformat(value))
        case "bytea":
            return F.lit(bytes.fromhex(value[2:]))
        case _:
            return F.lit(value)


def _compare_exactly(column: Column, kind: str, operator: Operator, value: Fraction) -> Column:
    """By whole multiples of the column's last digit: the literal's floor is one of them."""
    size = numeric_size(kind)
    scale = size[1] if size else 0
    multiples = value * 10**scale
    least = floor(multiples)
    if least != multiples:
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
    bound = 10 ** size[0] - 1 if size else 2 ** _INTEGER_BITS[kind] - 1
    lowest = -bound if size else -bound - 1
    if not lowest <= least <= bound:
        return _constant(column, _beyond(operator, above=least > bound))
    if size is None:
        return _apply(operator, column, F.lit(least).cast(spark_type(kind)))
    # From text: a Decimal of Python is rounded to the precision of its context.
    return _apply(operator, column, F.lit(str(Decimal(f"{least}E-{scale}"))).cast(spark_type(kind)))


def _compare_exact_text(column: Column, operator: Operator, value: Fraction) -> Column:
    """Decimal text of any length: by sign, then by the length of the whole part, then as text.

    The text is canonical: no leading zeros, no plus sign, no exponent, no minus zero.
    """
    digits, denominator = value.numerator, value.denominator
    scale = 0
    while denominator != 1 and scale <= 100:
        digits, denominator, scale = digits * 10, denominator, scale + 1
        common = Fraction(digits, denominator)
        digits, denominator = common.numerator, common.denominator
    negative = digits < 0
    whole, fraction = divmod(abs(digits), 10**scale)
    whole_text, fraction_text = str(whole), str(fraction).zfill(scale) if scale else ""
    order = _order_of_text(column, negative, whole_text, fraction_text.rstrip("0"))
    return _apply(operator, order, F.lit(0))


def _order_of_text(column: Column, negative: bool, whole: str, fraction: str) -> Column:
    """-1, 0 or 1: where the column's number lies beside the given one."""
    is_negative = column.startswith("-")
    size = F.regexp_replace(column, "^-", "")
    its_whole = F.substring_index(size, ".", 1)
    its_fraction = F.when(
        F.instr(size, ".") > 0, F.rtrim(F.substring_index(size, ".", -1), F.lit("0"))
    ).otherwise(F.lit(""))
    length = F.length(its_whole)
    magnitude = (
        F.when(length < len(whole), F.lit(-1))
        .when(length > len(whole), F.lit(1))
        .when(its_whole < whole, F.lit(-1))
        .when(its_whole > whole, F.lit(1))
        .when(its_fraction < fraction, F.lit(-1))
        .when(its_fraction > fraction, F.lit(1))
        .otherwise(F.lit(0))
    )
    found = F.when(is_negative, -magnitude if negative else F.lit(-1)).otherwise(
        F.lit(1) if negative else magnitude
    )
    return F.when(column.isNotNull(), found)


def _beyond(operator: Operator, *, above: bool) -> bool:
    if operator in (Operator.LESS, Operator.LESS_OR_EQUAL):
        return above
    if operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL):
        return not above
    return operator is Operator.NOT_EQUAL


def _constant(column: Column, value: bool) -> Column:
    """The same for every row that has a value."""
    return F.when(column.isNotNull(), F.lit(value))


def _apply(operator: Operator, left: Column, right: Column) -> Column:
    match operator:
        case Operator.EQUAL:
            return left == right
        case Operator.NOT_EQUAL:
            return left != right
        case Operator.LESS:
            return left < right
        case Operator.LESS_OR_EQUAL:
            return left <= right
        case Operator.GREATER:
            return left > right
        case Operator.GREATER_OR_EQUAL:
            return left >= right
