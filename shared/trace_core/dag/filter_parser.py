"""A predicate string, or a map of fields, -> the filter tree.

condition := and_part (OR and_part)*          and_part := factor (AND factor)*
factor    := NOT factor | "(" condition ")" | field test
test      := (= != <> < <= > >=) literal | [NOT] IN "(" literal, … ")"
           | [NOT] BETWEEN literal AND literal | IS [NOT] NULL
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from trace_core.dag import filters
from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    FilterInvalid,
    Literal,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
)

TEXT_MAX = 64 * 1024

_Made = TypeVar("_Made")

# Every alternative starts with a different character, so matching never goes back.
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?![0-9A-Za-z_.]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\r\n]*")
_OPERATORS = {operator.value: operator for operator in Operator} | {"<>": Operator.NOT_EQUAL}
_A_VALUE = "write 'text' in single quotes, a number, TRUE or FALSE"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int

    @property
    def keyword(self) -> str:
        """The upper-case keyword, or nothing: fields are lower case but keywords may be too."""
        word = self.text.lower()
        return word.upper() if self.kind == "word" and word in filters.KEYWORDS else ""


def parse_text(text: str) -> Predicate:
    """Read a predicate string; raises FilterInvalid with the offset of what is wrong."""
    if len(text) > TEXT_MAX:
        raise FilterInvalid(
            f"the filter has more than {TEXT_MAX:,} characters", "filter inside the operator"
        )
    return _Parser(_tokens(text)).whole()


def from_map(conditions: Mapping[str, Literal | list[Literal] | None]) -> Predicate:
    """All fields must have the given value, or one of the given values."""
    parts: list[Predicate] = []
    for name, value in conditions.items():
        if value is None:
            parts.append(NullTest(name))
        elif isinstance(value, list):
            parts.append(Membership(name, tuple(value)))
        else:
            parts.append(Comparison(name, Operator.EQUAL, value))
    if not parts:
        raise FilterInvalid("the filter is empty", "remove `where` to read everything")
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position, literals = 0, 0
    while True:
        found = _TOKEN.match(text, position)
        if not found or found.lastgroup is None:
            raise _unreadable(text, position)
        kind = found.lastgroup
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        if kind == "end":
            return tokens
        literals += kind in ("text", "number")
        if literals > filters.LITERALS_MAX:
            raise FilterInvalid(
                f"the filter has more than {filters.LITERALS_MAX} values",
                "join with a dataset that holds the values",
                found.start(kind),
            )
        position = found.end()


def _unreadable(text: str, position: int) -> FilterInvalid:
    blank = _BLANK.match(text, position)
    offset = blank.end() if blank else position
    character = text[offset : offset + 1]
    match character:
        case "'":
            return FilterInvalid("the text is not closed", "close it with '", offset)
        case '"' | "`":
            return FilterInvalid(
                f"the quote {character} is not used in filters",
                "write text in single quotes and fields without quotes",
                offset,
            )
        case ";":
            return FilterInvalid("a filter is one condition", "remove the `;`", offset)
    if character.isdigit() or character in "-.+":
        return FilterInvalid(
            "this is not a number", "write digits, and a decimal point if needed", offset
        )
    return FilterInvalid(
        f"`{character}` is not used in filters",
        "combine comparisons with AND, OR, NOT and parentheses",
        offset,
    )


class _Parser:
    """Recursive descent; every level of nesting is counted before it is entered."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        if self._peek.kind == "end":
            raise FilterInvalid("the filter is empty", "remove `where` to read everything")
        predicate = self._condition()
        if self._peek.kind != "end":
            raise self._unexpected("AND or OR", "join conditions with AND or OR")
        return predicate

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _took(self, keyword: str) -> bool:
        if self._peek.keyword != keyword:
            return False
        self._next += 1
        return True

    def _took_sign(self, sign: str) -> bool:
        if self._peek.kind != "sign" or self._peek.text != sign:
            return False
        self._next += 1
        return True

    def _condition(self) -> Predicate:
        parts = [self._and_part()]
        while self._took("OR"):
            parts.append(self._and_part())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and_part(self) -> Predicate:
        parts = [self._factor()]
        while self._took("AND"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _factor(self) -> Predicate:
        start = self._peek
        if start.keyword == "NOT" or (start.kind == "sign" and start.text == "("):
            self._depth += 1
            if self._depth > filters.DEPTH_MAX:
                raise FilterInvalid(
                    f"the filter is nested more than {filters.DEPTH_MAX} levels deep",
                    "remove parentheses that are not needed",
                    start.offset,
                )
            self._next += 1
            if start.keyword == "NOT":
                predicate: Predicate = Not(self._factor())
            else:
                predicate = self._condition()
                if not self._took_sign(")"):
                    raise self._unexpected("`)`", "close the parenthesis")
            self._depth -= 1
            return predicate
        return self._test()

    def _test(self) -> Predicate:
        token = self._take()
        if token.kind != "word" or token.keyword:
            self._next -= token.kind != "end"
            raise self._unexpected("a field name", "write `field = value`")
        name = token.text
        self._at(token, lambda: filters.check_field(name))
        negated = self._took("NOT")
        if self._took("IN"):
            return self._membership(name, negated)
        if self._took("BETWEEN"):
            start = self._peek
            low = self._literal()
            if not self._took("AND"):
                raise self._unexpected("AND", "write `BETWEEN low AND high`")
            high = self._literal()
            between = self._at(start, lambda: Between(name, low, high))
            return Not(between) if negated else between
        if negated:
            raise self._unexpected("IN or BETWEEN", "write NOT before the field otherwise")
        if self._took("IS"):
            missing = not self._took("NOT")
            if not self._took("NULL"):
                raise self._unexpected("NULL", "write `IS NULL` or `IS NOT NULL`")
            return NullTest(name, negated=not missing)
        sign = self._peek
        if sign.kind == "sign" and sign.text in _OPERATORS:
            self._next += 1
            value = self._peek
            literal = self._literal()
            return self._at(value, lambda: Comparison(name, _OPERATORS[sign.text], literal))
        if sign.text == "(":
            raise FilterInvalid(
                "functions are not used in filters", "compare a field with a value", token.offset
            )
        better = "write `=`" if sign.text == "==" else f"write for example `{name} = TRUE`"
        raise self._unexpected("a comparison", better)

    def _membership(self, name: str, negated: bool) -> Predicate:
        start = self._peek
        if not self._took_sign("("):
            raise self._unexpected("`(`", "list the values: IN (1, 2)")
        values = [self._literal()]
        while self._took_sign(","):
            values.append(self._literal())
        if not self._took_sign(")"):
            raise self._unexpected("`,` or `)`", "separate values with `,` and close with `)`")
        return self._at(start, lambda: Membership(name, tuple(values), negated))

    def _literal(self) -> Literal:
        token = self._take()
        if token.kind == "text":
            text = token.text[1:-1].replace("''", "'")
            self._at(token, lambda: filters.check_literal(text))
            return text
        if token.kind == "number":
            # Bounded before conversion: turning digits into a number is not linear.
            if len(token.text) > filters.DIGITS_MAX + 2:
                raise FilterInvalid(
                    f"the number has more than {filters.DIGITS_MAX} digits",
                    "shorten it",
                    token.offset,
                )
            number = Decimal(token.text) if "." in token.text else int(token.text)
            self._at(token, lambda: filters.check_literal(number))
            return number
        if token.keyword in ("TRUE", "FALSE"):
            return token.keyword == "TRUE"
        self._next -= token.kind != "end"
        if token.keyword == "NULL":
            raise self._unexpected("a value", "nothing equals NULL; write IS NULL or IS NOT NULL")
        if token.kind == "word":
            raise self._unexpected("a value", f"write '{token.text[:60]}' in quotes if it is text")
        raise self._unexpected("a value", _A_VALUE)

    def _unexpected(self, expected: str, suggestion: str) -> FilterInvalid:
        token = self._peek
        found = "the end" if token.kind == "end" else f"`{token.text[:60]}`"
        return FilterInvalid(f"{expected} is expected, not {found}", suggestion, token.offset)

    @staticmethod
    def _at(token: _Token, make: Callable[[], _Made]) -> _Made:
        """Give a rule of the tree the place in the text where it was broken."""
        try:
            return make()
        except FilterInvalid as error:
            raise FilterInvalid(error.reason, error.suggestion, token.offset) from None
