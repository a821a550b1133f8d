"""Sums and order of exact numbers of any length, in Spark's own expressions.

A number is cut into limbs of nine digits, whose sums stay within a bigint for nine billion rows;
the limbs' sums are carried into one number once for each group.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

LIMB = 9
_BASE = 10**LIMB
ROWS_DIGITS = 19
"""By which a sum may be longer than what is added."""


def limbs_for(digits: int) -> int:
    return -(-digits // LIMB)


def limb_sums(text: Column, digits: int, scale: int) -> list[Column]:
    """The sum of each limb, the lowest first; of `digits` digits, `scale` of them decimals."""
    count = limbs_for(digits)
    magnitude = F.lpad(_scaled(text, scale), count * LIMB, "0")
    sign = F.when(text.startswith("-"), F.lit(-1)).otherwise(F.lit(1)).cast("bigint")
    return [
        F.sum(sign * F.substring(magnitude, (count - at - 1) * LIMB + 1, LIMB).cast("bigint"))
        for at in range(count)
    ]


def carried(sums: Column, scale: int) -> Column:
    """The exact text of a number whose limbs' sums are in an array, the lowest first."""
    negative = _carry(sums, 1)["carry"] < 0
    sign = F.when(negative, F.lit(-1)).otherwise(F.lit(1)).cast("bigint")
    total = _carry(sums, sign)
    digits = F.concat(total["carry"].cast("string"), total["digits"])
    bare = F.regexp_replace(digits, "^0+(?=.)", "")
    if scale:
        padded = F.lpad(bare, F.greatest(F.length(bare), F.lit(scale + 1)), F.lit("0"))
        whole = F.length(padded) - scale
        bare = F.concat(
            F.substring(padded, F.lit(1), whole),
            F.lit("."),
            F.substring(padded, whole + 1, F.lit(scale)),
        )
    return F.concat(F.when(negative, F.lit("-")).otherwise(F.lit("")), bare)


def sort_key(text: Column, scale: int) -> Column:
    """Orders numbers as numbers: by sign, then by length, then by digits."""
    magnitude = _scaled(text, scale)
    length = F.length(magnitude)
    turned = F.translate(magnitude, "0123456789", "9876543210")
    negative = text.startswith("-")
    return F.when(
        text.isNotNull(),
        F.struct(
            F.when(negative, -length).otherwise(length).alias("length"),
            F.when(negative, turned).otherwise(magnitude).alias("digits"),
        ),
    )


def _scaled(text: Column, scale: int) -> Column:
    """The digits of a number without its sign, all with as many decimals."""
    size = F.ltrim(text, F.lit("-"))
    if not scale:
        return size
    fraction = F.when(F.instr(size, ".") > 0, F.substring_index(size, ".", -1)).otherwise(F.lit(""))
    return F.concat(F.substring_index(size, ".", 1), F.rpad(fraction, scale, "0"))


def _carry(sums: Column, sign: Column | int) -> Column:
    start = F.struct(F.lit(0).cast("bigint").alias("carry"), F.lit("").alias("digits"))

    def step(state: Column, limb: Column) -> Column:
        value = limb * sign + state["carry"]
        kept = F.pmod(value, F.lit(_BASE))
        above = F.call_function("div", value - kept, F.lit(_BASE))
        return F.struct(
            above.alias("carry"),
            F.concat(F.lpad(kept.cast("string"), LIMB, "0"), state["digits"]).alias("digits"),
        )

    return F.aggregate(sums, start, step)
