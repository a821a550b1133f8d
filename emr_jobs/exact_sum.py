"""Sums and order of exact numbers of any length, in Spark's own expressions.

Most numbers are short: each is one decimal, which Spark adds and compares while it groups, without
sorting its rows. A long one is cut into limbs of 28 digits, which cost nothing where numbers are
short. The limbs' sums are carried into one number once for each group.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as S

LIMB = 28
"""Digits whose sum stays within the 38 of a decimal for ten billion rows; beyond it is an error."""
ROWS_DIGITS = 19
"""By which a sum may be longer than what is added."""
_SUM = S.DecimalType(38, 0)


def limbs_for(digits: int) -> int:
    return -(-digits // LIMB)


def short(signed: Column) -> Column:
    """A number of one limb; NULL for all others."""
    return F.when(F.length(signed) <= LIMB, signed.cast(S.DecimalType(LIMB, 0)))


def long(signed: Column) -> Column:
    """The text of all others."""
    return F.when(F.length(signed) > LIMB, signed)


def limb(signed: Column, at: int) -> Column:
    """A part of a whole number, with its sign; the lowest first, NULL above the last digit."""
    magnitude = F.ltrim(signed, F.lit("-"))
    start = F.length(magnitude) - LIMB * (at + 1) + 1
    above = F.least(start - 1, F.lit(0))
    digits = F.substring(magnitude, start - above, above + LIMB)
    sign = F.when(signed.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    return F.when(start + LIMB > 1, F.concat(sign, digits).cast(S.DecimalType(LIMB, 0)))


def signed_digits(text: Column, scale: int) -> Column:
    """The number without its point, all with as many decimals."""
    if not scale:
        return text
    size = F.ltrim(text, F.lit("-"))
    fraction = F.when(F.instr(size, ".") > 0, F.substring_index(size, ".", -1)).otherwise(F.lit(""))
    sign = F.when(text.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, F.substring_index(size, ".", 1), F.rpad(fraction, scale, "0"))


def with_point(signed: Column, scale: int) -> Column:
    """What `signed_digits` made of a number, as a number again."""
    if not scale:
        return signed
    size = F.ltrim(signed, F.lit("-"))
    padded = F.lpad(size, F.greatest(F.length(size), F.lit(scale + 1)), F.lit("0"))
    whole = F.length(padded) - scale
    return F.concat(
        F.when(signed.startswith("-"), F.lit("-")).otherwise(F.lit("")),
        F.substring(padded, F.lit(1), whole),
        F.lit("."),
        F.substring(padded, whole + 1, F.lit(scale)),
    )


def carried(short_ones: Column, limbs: Sequence[Column]) -> Column:
    """The exact digits of a sum: of short numbers, and of each limb of the long ones."""
    lowest, *above = limbs
    total = F.coalesce(short_ones, F.lit(0)) + lowest
    return F.when(lowest.isNull(), short_ones.cast("string")).otherwise(_carried([total, *above]))


def sort_key(signed: Column) -> Column:
    """Orders whole numbers as numbers: by sign, then by length, then by digits."""
    magnitude = F.ltrim(signed, F.lit("-"))
    length = F.length(magnitude)
    turned = F.translate(magnitude, "0123456789", "9876543210")
    negative = signed.startswith("-")
    return F.when(
        signed.isNotNull(),
        F.struct(
            F.when(negative, -length).otherwise(length).alias("length"),
            F.when(negative, turned).otherwise(magnitude).alias("digits"),
        ),
    )


def _carried(sums: Sequence[Column]) -> Column:
    limbs = F.array(*(F.coalesce(each, F.lit(0)).cast(_SUM) for each in sums))
    negative = _carry(limbs)["carry"] < 0
    turned = F.transform(limbs, lambda each: F.when(negative, -each).otherwise(each).cast(_SUM))
    total = _carry(turned)
    digits = F.concat(total["carry"].cast("string"), total["digits"])
    sign = F.when(negative, F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, F.regexp_replace(digits, "^0+(?=.)", ""))


def _carry(limbs: Column) -> Column:
    start = F.struct(F.lit(0).cast("bigint").alias("carry"), F.lit("").alias("digits"))
    base = F.lit(f"1{'0' * LIMB}").cast(S.DecimalType(LIMB + 1, 0))

    def step(state: Column, each: Column) -> Column:
        value = (each + state["carry"]).cast(_SUM)
        kept = F.pmod(value, base).cast(S.DecimalType(LIMB, 0))
        above = F.call_function("div", (value - kept).cast(_SUM), base)
        return F.struct(
            above.cast("bigint").alias("carry"),
            F.concat(F.lpad(kept.cast("string"), LIMB, "0"), state["digits"]).alias("digits"),
        )

    return F.aggregate(limbs, start, step)
