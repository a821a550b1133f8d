"""Values that have several spellings get one, so that both layouts give back the same rows."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from trace_core.dag.column_types import NUMERIC_PRECISION_MAX

_TOO_LONG = f"has a number of more than {NUMERIC_PRECISION_MAX} digits"


def canonical_number(text: str, precision: int | None, scale: int | None) -> str:
    """The exact decimal text of a number; raises `ValueError` with what is wrong."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError("is no number") from None
    if not value.is_finite():
        raise ValueError("is no finite number")
    left, _, right = plain_number(value).lstrip("-").partition(".")
    right = right.rstrip("0")
    if precision is not None:
        scale = scale or 0
        if len(right) > scale:
            raise ValueError(f"has more than {scale} decimal places")
        if len(left.lstrip("0")) > precision - scale:
            raise ValueError(f"has more than {precision - scale} digits before the point")
        right = right.ljust(scale, "0")
    text = f"{left}.{right}" if right else left
    return f"-{text}" if value < 0 else text


def plain_number(value: Decimal) -> str:
    """All digits and no exponent, whatever the precision of the decimal context is."""
    sign, digits, power = value.as_tuple()
    exponent = int(power)
    if abs(exponent) + len(digits) > NUMERIC_PRECISION_MAX:
        raise ValueError(_TOO_LONG)
    text = "".join(map(str, digits))
    if exponent >= 0:
        text += "0" * exponent
    else:
        text = text.rjust(1 - exponent, "0")
        text = f"{text[:exponent]}.{text[exponent:]}"
    whole, point, places = text.partition(".")
    minus = "-" if sign and not value.is_zero() else ""
    return minus + (whole.lstrip("0") or "0") + point + places


def canonical_uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError("is no UUID") from None


def canonical_jsonb(text: str) -> str:
    """One text for what Postgres takes for the same `jsonb`, numbers to the last digit."""
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
        return _json(value)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"is not JSON: {name} is no number")


def _json(value: Any) -> str:
    match value:
        case dict():
            items = [f"{_json(name)}:{_json(value[name])}" for name in sorted(value)]
            return "{" + ",".join(items) + "}"
        case list():
            return "[" + ",".join([_json(each) for each in value]) + "]"
        case str():
            if "\0" in value or not _is_text(value):
                raise ValueError("has text that Postgres cannot store")
            return json.dumps(value, ensure_ascii=False)
        case bool() | None:
            return json.dumps(value)
        case Decimal() | int():
            return plain_number(Decimal(value))
    raise ValueError("is not JSON")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
