"""What an unquoted word in a DAG file means: text, number, true/false or nothing.

YAML 1.1 and 1.2 read some words differently (`no`, `010`); those are never guessed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

ScalarValue = str | int | float | bool | None

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# YAML 1.1 takes all of these for true/false; a reader of text must then ask for quotes.
_BOOLEANS = {
    word: value
    for value, words in ((True, "true yes on"), (False, "false no off"))
    for plain in words.split()
    for word in (plain, plain.capitalize(), plain.upper())
}
_DECIMAL_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_INT64 = 20


@dataclass(frozen=True, slots=True)
class Refused:
    """A word that has no single safe meaning."""

    code: str
    reason: str
    suggestion: str


def resolve(word: str) -> ScalarValue | Refused:
    """The value of an unquoted word."""
    if word in _NULLS:
        return None
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    if _DECIMAL_INT.fullmatch(word):
        return _decimal_int(word)
    if _OTHER_INT.fullmatch(word):
        # Checked before conversion: an address or a hash is far beyond 64 bits.
        return int(word, 0) if len(word) <= 18 and int(word, 0) <= INT64_MAX else _too_big()
    if _NOT_FINITE.fullmatch(word):
        return Refused("not_finite", "this is not a finite number", "write a finite number")
    if _FLOAT.fullmatch(word):
        value = float(word)
        if math.isfinite(value):
            return value
        return Refused("not_finite", "this number is too large", "write a smaller number")
    return word


def _decimal_int(word: str) -> int | Refused:
    digits = word.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0":
        return Refused(
            "leading_zero",
            "a number with a leading zero is octal to some readers and decimal to others",
            f'write `{digits.lstrip("0") or "0"}`, or "…" in quotes if it is text',
        )
    if len(word) > _LONGEST_INT64 or not INT64_MIN <= int(word) <= INT64_MAX:
        return _too_big()
    return int(word)


def _too_big() -> Refused:
    return Refused(
        "integer_too_big",
        "this is read as a whole number, and it does not fit 64 bits",
        "write a smaller number, or put it in quotes if it is text (a hash, an address)",
    )
