"""Numbers of up to 256 bits from hex to decimal text, exactly, without leaving Spark's own code.

Nothing in Spark counts beyond 128 bits. So the number is cut into limbs of 30 bits; what each of
them adds to each nine decimal digits is a constant; and a carry from nine digits to the next makes
decimal text of it. Sums stay below 2^63: eight limbs below 2^30, times less than 10^9, a top limb
of 16 bits, and a carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LIMB_BITS = 30
_BASE = 10**9
_DIGITS = 9
_CHUNKS = ((1, 4), (5, 15), (20, 15), (35, 15), (50, 15))
"""Of the hex text, from the top: place and length."""
_HEX, _OTHER = "0123456789abcdef", "fedcba9876543210"


@dataclass(frozen=True)
class Number:
    word: str
    """The column with 64 lower-case hex digits; NULL gives NULL."""
    signed: bool


def with_decimals(frame: DataFrame, numbers: Mapping[str, Number]) -> DataFrame:
    """The frame with a column of decimal text for each of the numbers."""
    if not numbers:
        return frame
    given = frame.columns
    frame = _added(frame, {f"{name}_low": _low(each) for name, each in numbers.items()})
    frame = _added(frame, {f"{name}_neg": _negative(each) for name, each in numbers.items()})
    frame = _added(frame, {f"{name}_hex": _magnitude(name, each) for name, each in numbers.items()})
    frame = _added(
        frame,
        {
            f"{name}_c{at}": _chunk(name, start, length)
            for name in numbers
            for at, (start, length) in enumerate(_CHUNKS)
        },
    )
    frame = _added(frame, {f"{name}_s0": f"{_sum(name, 0)} + {name}_neg" for name in numbers})
    for at in range(1, _DIGITS):
        frame = _added(
            frame,
            {
                f"{name}_s{at}": f"{_sum(name, at)} + ({name}_s{at - 1} div {_BASE})"
                for name in numbers
            },
        )
    return frame.select(*given, *(_text(name).alias(name) for name in numbers))


def _added(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    return frame.select("*", *(F.expr(text).alias(name) for name, text in columns.items()))


def _negative(number: Number) -> str:
    return f"IF(substring({number.word}, 1, 1) >= '8', 1L, 0L)" if number.signed else "0L"


def _low(number: Number) -> str:
    """The text of what 64 bits hold, as they hold most numbers; NULL for all others."""
    word, digits = number.word, f"substring({number.word}, 49, 16)"
    above = f"startswith({word}, '{'0' * 48}')"
    if not number.signed:
        return f"CASE WHEN {above} THEN conv({digits}, 16, 10) END"
    sign = f"substring({word}, 49, 1)"
    below = f"startswith({word}, '{'f' * 48}')"
    fits = f"({above} AND {sign} < '8') OR ({below} AND {sign} >= '8')"
    return f"CASE WHEN {fits} THEN conv({digits}, 16, -10) END"


def _magnitude(name: str, number: Number) -> str:
    """Of a negative number all bits turned round; one is added to it further on.

    NULL, which costs little from here on, where the text is known already.
    """
    word = number.word
    if number.signed:
        turned = f"translate({word}, '{_HEX}', '{_OTHER}')"
        word = f"IF({name}_neg = 1, {turned}, {word})"
    return f"CASE WHEN {name}_low IS NULL THEN {word} END"


def _chunk(name: str, start: int, length: int) -> str:
    return f"CAST(conv(substring({name}_hex, {start}, {length}), 16, 10) AS BIGINT)"


def _limbs(name: str) -> Sequence[tuple[int, str]]:
    """The power of two of each limb, and its expression."""
    limbs = []
    for at in range(4):
        chunk, bits = f"{name}_c{4 - at}", 2 * LIMB_BITS * at
        limbs.append((bits, f"({chunk} & {2**LIMB_BITS - 1})"))
        limbs.append((bits + LIMB_BITS, f"shiftright({chunk}, {LIMB_BITS})"))
    return [*limbs, (8 * LIMB_BITS, f"{name}_c0")]


def _sum(name: str, at: int) -> str:
    """What all limbs add to the nine decimal digits at this place."""
    factors = [((2**bits // _BASE**at) % _BASE, text) for bits, text in _limbs(name)]
    return " + ".join(f"{text} * {factor}L" for factor, text in factors if factor)


def _text(name: str) -> Column:
    groups = (
        f"lpad(CAST({name}_s{at} % {_BASE} AS STRING), {_DIGITS}, '0')" for at in range(8, -1, -1)
    )
    digits = f"ltrim('0', concat({', '.join(groups)}))"
    # What needs the long way is never zero.
    return F.expr(f"coalesce({name}_low, concat(IF({name}_neg = 1, '-', ''), {digits}))")
