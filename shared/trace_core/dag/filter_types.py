"""A filter beside the columns that it reads: every compiler gets literals of the column's kind.

Engines disagree about a text compared with a number, and about spellings of one instant. What they
could take differently is refused here, or written in one way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from uuid import UUID

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
from trace_core.dag.problems import did_you_mean


def bind(predicate: Predicate, types: Mapping[str, str]) -> Predicate:
    """The same predicate with its literals spelled for `types` (column -> type)."""
    match predicate:
        case And(parts):
            return And(tuple([bind(part, types) for part in parts]))
        case Or(parts):
            return Or(tuple([bind(part, types) for part in parts]))
        case Not(part):
            return Not(bind(part, types))
        case NullTest(field):
            _type_of(field, types)
            return predicate
        case Comparison(field, _, value):
            return replace(predicate, value=_literal(field, value, types))
        case Membership(field, values, negated):
            found = tuple([_literal(field, value, types) for value in values])
            if _type_of(field, types) == "real":
                # Postgres rounds a list to the column's width, and a single value it does not.
                return _spelled_out(field, found, negated)
            return replace(predicate, values=found)
        case Between(field, low, high):
            return replace(
                predicate, low=_literal(field, low, types), high=_literal(field, high, types)
            )


def _spelled_out(field: str, values: tuple[Literal, ...], negated: bool) -> Predicate:
    operator = Operator.NOT_EQUAL if negated else Operator.EQUAL
    parts = tuple([Comparison(field, operator, value) for value in values])
    if len(parts) == 1:
        return parts[0]
    return And(parts) if negated else Or(parts)


def _type_of(field: str, types: Mapping[str, str]) -> str:
    if field not in types:
        known = "name a column of the input"
        raise FilterInvalid(
            f"there is no column `{field}`", did_you_mean(field, list(types), known) or known
        )
    return types[field].split("(")[0]


def _literal(field: str, value: Literal, types: Mapping[str, str]) -> Literal:
    kind = _type_of(field, types)
    if kind == "jsonb":
        raise FilterInvalid(f"`{field}` is jsonb", "ask for IS NULL or IS NOT NULL only")
    wanted = _WANTED.get(kind, "a number")
    given = "text"
    if isinstance(value, bool):
        given = "TRUE or FALSE"
    elif not isinstance(value, str):
        given = "a number"
    if given != wanted:
        raise FilterInvalid(f"`{field}` is {kind} and is compared with {given}", f"write {wanted}")
    if not isinstance(value, str):
        return value
    try:
        return _spelled(kind, value)
    except ValueError:
        raise FilterInvalid(
            f"`{field}` is {kind}, and {value!r} is none", f"write it like {_EXAMPLES[kind]!r}"
        ) from None


_WANTED = {
    "text": "text",
    "uuid": "text",
    "bytea": "text",
    "date": "text",
    "timestamptz": "text",
    "boolean": "TRUE or FALSE",
}
_EXAMPLES = {
    "uuid": "0b9a2d3e-4c5f-4a6b-8c7d-9e0f1a2b3c4d",
    "bytea": "\\x00ff",
    "date": "2026-01-31",
    "timestamptz": "2026-01-31T12:00:00+00:00",
}


def _spelled(kind: str, value: str) -> str:
    match kind:
        case "uuid":
            return str(UUID(value))
        case "bytea":
            if not value.startswith("\\x"):
                raise ValueError(value)
            return "\\x" + bytes.fromhex(value[2:]).hex()
        case "date":
            return date.fromisoformat(value).isoformat()
        case "timestamptz":
            return instant(value).isoformat()
        case _:
            return value


def instant(text: str) -> datetime:
    """Without a time zone it is UTC."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
