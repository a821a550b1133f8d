"""Input filters (`where`): one typed tree for a map of fields or a predicate string.

The tree holds fields and literals only. Compilers turn it into a query with parameters; no text
of the user is ever part of a statement, except a field name that matched `FIELD`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from trace_core.kernel.errors import Invalid

FIELD = re.compile(r"[a-z_][a-z0-9_]{0,62}")
KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
DEPTH_MAX = 32
LITERALS_MAX = 1000
LITERAL_TEXT_MAX = 1024
DIGITS_MAX = 78
"""An unsigned 256-bit number has 78 digits: token amounts are compared as they are."""

Literal = str | int | Decimal | bool


class FilterInvalid(Invalid):
    """The filter is not a predicate of the `where` grammar."""

    code = "FilterInvalid"

    def __init__(self, reason: str, suggestion: str, offset: int = 0) -> None:
        self.reason, self.suggestion, self.offset = reason, suggestion, offset
        super().__init__(reason, suggestion=suggestion, offset=offset)


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    field: str
    operator: Operator
    value: Literal

    def __post_init__(self) -> None:
        check_field(self.field)
        check_literal(self.value)
        if isinstance(self.value, bool) and self.operator not in ("=", "!="):
            raise FilterInvalid("true and false have no order", "use `=` or `!=`")


@dataclass(frozen=True, slots=True)
class Membership:
    field: str
    values: tuple[Literal, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        check_field(self.field)
        if not self.values:
            raise FilterInvalid("the list of values is empty", "list at least one value")
        check_same_kind(*self.values)


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends belong to the range."""

    field: str
    low: Literal
    high: Literal

    def __post_init__(self) -> None:
        check_field(self.field)
        check_same_kind(self.low, self.high)
        if isinstance(self.low, bool):
            raise FilterInvalid("true and false have no order", "use `=`")


@dataclass(frozen=True, slots=True)
class NullTest:
    field: str
    negated: bool = False

    def __post_init__(self) -> None:
        check_field(self.field)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


Predicate = Comparison | Membership | Between | NullTest | And | Or | Not


def to_text(predicate: Predicate) -> str:
    """The predicate in one canonical spelling, which parses back to the same tree."""
    match predicate:
        case Comparison(field, operator, value):
            return f"{field} {operator.value} {_literal_text(value)}"
        case Membership(field, values, negated):
            listed = ", ".join(_literal_text(value) for value in values)
            return f"{field} {'NOT IN' if negated else 'IN'} ({listed})"
        case Between(field, low, high):
            return f"{field} BETWEEN {_literal_text(low)} AND {_literal_text(high)}"
        case NullTest(field, negated):
            return f"{field} IS {'NOT NULL' if negated else 'NULL'}"
        case And(parts):
            return " AND ".join(_part_text(part, (And, Or)) for part in parts)
        case Or(parts):
            return " OR ".join(_part_text(part, (Or,)) for part in parts)
        case Not(part):
            return f"NOT {_part_text(part, (And, Or))}"


def fields_of(predicate: Predicate) -> Iterator[str]:
    """Every field the predicate names, repeats included."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from fields_of(part)
        case Not(part):
            yield from fields_of(part)
        case _:
            yield predicate.field


def check_field(name: str) -> None:
    if not FIELD.fullmatch(name):
        lower = name.lower()
        better = f"write `{lower}`" if FIELD.fullmatch(lower) else "use a-z, 0-9 and `_`"
        raise FilterInvalid("this is not a field name", better)
    if name in KEYWORDS:
        raise FilterInvalid(f"`{name}` is a word of the filter grammar", "rename the field")


def check_literal(value: Literal) -> None:
    match value:
        case str():
            if len(value) > LITERAL_TEXT_MAX:
                raise FilterInvalid(
                    f"the text has more than {LITERAL_TEXT_MAX} characters", "shorten it"
                )
            if "\x00" in value:
                raise FilterInvalid("the text contains a NUL character", "remove it")
        case bool():
            pass
        case int():
            if abs(value) >= 10**DIGITS_MAX:
                raise FilterInvalid(f"the number has more than {DIGITS_MAX} digits", "shorten it")
        case Decimal():
            exponent = value.as_tuple().exponent
            if not isinstance(exponent, int) or len(f"{value:f}") > DIGITS_MAX + 2:
                raise FilterInvalid(f"the number has more than {DIGITS_MAX} digits", "shorten it")


def check_same_kind(*values: Literal) -> None:
    kinds = set()
    for value in values:
        check_literal(value)
        kinds.add(
            "number"
            if isinstance(value, int | Decimal) and not isinstance(value, bool)
            else type(value).__name__
        )
    if len(kinds) > 1:
        raise FilterInvalid("text, numbers and true/false are mixed", "use values of one kind")


def _check_parts(parts: tuple[Predicate, ...]) -> None:
    if len(parts) < 2:
        raise FilterInvalid("AND and OR join at least two conditions", "write the condition alone")


def _part_text(part: Predicate, in_parentheses: tuple[type, ...]) -> str:
    return f"({to_text(part)})" if isinstance(part, in_parentheses) else to_text(part)


def _literal_text(value: Literal) -> str:
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal():
            text = f"{value:f}"
            # A decimal stays one when it is read again.
            return text if "." in text else f"{text}.0"
