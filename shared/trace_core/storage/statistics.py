"""The least and greatest value of each column of an object, and what follows for a filter.

They only ever say that an object holds no row of interest. What they do not know, may be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_core.dag.filter_types import instant
from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    Membership,
    Operator,
    Or,
    Predicate,
)
from trace_core.dag.model import Column
from trace_core.storage.model import Statistic, StoredObject
from trace_core.storage.rows import is_exact_text

_TEXT_MAX = 128
"""Longer texts are left out: a shortened one would no longer be a bound."""
_WITHOUT = frozenset({"boolean", "real", "double precision", "jsonb", "bytea"})


def extremes(
    table: pa.Table, columns: tuple[Column, ...]
) -> tuple[dict[str, Statistic], dict[str, Statistic]]:
    """Minimum and maximum, without columns that hold nothing or have no useful order."""
    minimum: dict[str, Statistic] = {}
    maximum: dict[str, Statistic] = {}
    for column in columns:
        if column.type in _WITHOUT:
            continue
        least, greatest = _ends(table.column(column.name), column.type)
        if least is not None and greatest is not None:
            minimum[column.name], maximum[column.name] = least, greatest
    return minimum, maximum


def _ends(array: Any, kind: str) -> tuple[Statistic | None, Statistic | None]:
    if is_exact_text(kind):
        values = [Decimal(each) for each in array.to_pylist() if each is not None]
        found = {"min": min(values, default=None), "max": max(values, default=None)}
    else:
        found = pc.min_max(array).as_py()
    return _statistic(found["min"]), _statistic(found["max"])


def _statistic(value: Any) -> Statistic | None:
    match value:
        case int():
            return value
        case str():
            return value if len(value) <= _TEXT_MAX else None
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case _:
            return None


def may_hold(predicate: Predicate | None, found: StoredObject, types: Mapping[str, str]) -> bool:
    """Can any row of the object satisfy the predicate? It must be bound to the types."""
    match predicate:
        case And(parts):
            return all(may_hold(part, found, types) for part in parts)
        case Or(parts):
            return any(may_hold(part, found, types) for part in parts)
        case Comparison(field, operator, value):
            return _may_compare(_bounds(found, field, types), operator, value)
        case Between(field, low, high):
            bounds = _bounds(found, field, types)
            return _may_compare(bounds, Operator.GREATER_OR_EQUAL, low) and _may_compare(
                bounds, Operator.LESS_OR_EQUAL, high
            )
        case Membership(field, values, False):
            bounds = _bounds(found, field, types)
            return any(_may_compare(bounds, Operator.EQUAL, value) for value in values)
        case _:
            return True


def may_overlap(found: StoredObject, column: str, start: int, end: int) -> bool:
    """Can any row lie in the range of that whole-number column?"""
    least, greatest = found.minimum.get(column), found.maximum.get(column)
    if not isinstance(least, int) or not isinstance(greatest, int):
        return True
    return least <= end and start <= greatest


Bounds = tuple[str, Any, Any]


def _bounds(found: StoredObject, field: str, types: Mapping[str, str]) -> Bounds | None:
    kind = types[field].split("(")[0]
    if kind in _WITHOUT or field not in found.minimum or field not in found.maximum:
        return None
    try:
        return (
            kind,
            _comparable(kind, found.minimum[field]),
            _comparable(kind, found.maximum[field]),
        )
    except (ValueError, InvalidOperation, TypeError):
        return None


def _comparable(kind: str, value: Any) -> Any:
    match kind:
        case "date":
            return date.fromisoformat(value)
        case "timestamptz":
            return instant(value)
        case "text" | "uuid":
            if not isinstance(value, str):
                raise TypeError(value)
            return value
        case _:
            number = Decimal(value)
            if not number.is_finite():
                raise ValueError(value)
            return number


def _may_compare(bounds: Bounds | None, operator: Operator, value: Any) -> bool:
    if bounds is None:
        return True
    kind, least, greatest = bounds
    wanted = _comparable(kind, value)
    match operator:
        case Operator.EQUAL:
            return bool(least <= wanted <= greatest)
        case Operator.NOT_EQUAL:
            return bool(least != wanted or greatest != wanted)
        case Operator.LESS:
            return bool(least < wanted)
        case Operator.LESS_OR_EQUAL:
            return bool(least <= wanted)
        case Operator.GREATER:
            return bool(greatest > wanted)
        case Operator.GREATER_OR_EQUAL:
            return bool(greatest >= wanted)
