"""Numbers of up to 256 bits from hex to decimal text, exactly, without leaving Java.

Nothing in Spark counts beyond 128 bits, but Java does: a function that Spark brings along is called
for each number that 64 bits do not hold. In Spark's own expressions it is so much code that Java
compiles none of it, and rows that do not need it pay for it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_HEX, _OTHER = "0123456789abcdef", "fedcba9876543210"
_DIGITS, _LOW = 64, 16
"""Hex digits of a word, and of what 64 bits hold."""


@dataclass(frozen=True)
class Number:
    word: str
    """The column with 64 lower-case hex digits; NULL gives NULL."""
    signed: bool


def with_decimals(frame: DataFrame, numbers: Mapping[str, Number]) -> DataFrame:
    """The frame with a column of decimal text for each of the numbers."""
    return frame.select("*", *(_decimal(each).alias(name) for name, each in numbers.items()))


def _decimal(number: Number) -> Column:
    word = F.col(number.word)
    low = F.substring(word, _DIGITS - _LOW + 1, _LOW)
    above = "0" * (_DIGITS - _LOW)
    if not number.signed:
        return (
            F.when(word.startswith(above), F.conv(low, 16, 10))
            .when(word.isNotNull(), _whole("0x", word))
            .cast("string")
        )
    negative = word >= "8"
    fits = (word.startswith(above) & (low < "8")) | (
        word.startswith("f" * len(above)) & (low >= "8")
    )
    return (
        F.when(fits, F.conv(low, 16, -10))
        .when(negative, _whole("-0x", _negated(word)))
        .when(word.isNotNull(), _whole("0x", word))
        .cast("string")
    )


def _negated(word: Column) -> Column:
    """Of two's complement: zeros at the end stay, the digit before them is taken from 16, and all
    others from 15."""
    kept = F.rtrim(word, F.lit("0"))
    others, last = F.substring(kept, F.lit(1), F.length(kept) - 1), F.substring(kept, -1, 1)
    return F.concat(
        F.translate(others, _HEX, _OTHER),
        F.translate(last, _HEX[1:], _HEX[:0:-1]),
        F.repeat(F.lit("0"), F.lit(_DIGITS) - F.length(kept)),
    )


def _whole(prefix: str, digits: Column) -> Column:
    return F.java_method(
        F.lit("org.apache.commons.lang3.math.NumberUtils"),
        F.lit("createBigInteger"),
        F.concat(F.lit(prefix), digits),
    )
