"""The Postgres types that a published schema may use."""

from __future__ import annotations

import re

from trace_core.dag.problems import did_you_mean

PLAIN_TYPES = (
    "text",
    "bigint",
    "integer",
    "smallint",
    "boolean",
    "double precision",
    "real",
    "numeric",
    "jsonb",
    "timestamptz",
    "date",
    "bytea",
    "uuid",
)
NUMERIC_PRECISION_MAX = 1000

TYPE_PATTERN = re.compile("|".join(PLAIN_TYPES) + r"|numeric\([0-9]{1,4}(?:, ?[0-9]{1,4})?\)")

_NUMERIC = re.compile(r"numeric\(([0-9]{1,4})(?:, ?([0-9]{1,4}))?\)")
# What people write from habit, and what it is called here.
_OTHERWISE = {
    "string": "text",
    "str": "text",
    "varchar": "text",
    "char": "text",
    "int": "integer",
    "int4": "integer",
    "int8": "bigint",
    "long": "bigint",
    "uint64": "numeric(20)",
    "uint256": "numeric(78)",
    "float": "double precision",
    "float8": "double precision",
    "double": "double precision",
    "decimal": "numeric",
    "bool": "boolean",
    "json": "jsonb",
    "timestamp": "timestamptz",
    "datetime": "timestamptz",
    "bytes": "bytea",
    "binary": "bytea",
    "serial": "bigint",
}


def is_column_type(text: str) -> bool:
    if not TYPE_PATTERN.fullmatch(text):
        return False
    numeric = _NUMERIC.fullmatch(text)
    if not numeric:
        return True
    precision, scale = int(numeric[1]), int(numeric[2] or 0)
    return 1 <= precision <= NUMERIC_PRECISION_MAX and scale <= precision


def suggest_column_type(text: str) -> str:
    word = text.strip().lower()
    if is_column_type(word):
        return f"write `{word}`"
    if word.startswith("numeric("):
        return f"write `numeric(p, s)` with p from 1 to {NUMERIC_PRECISION_MAX} and s up to p"
    known = _OTHERWISE.get(re.split(r"[ (\[]", word)[0])
    if known:
        return f"write `{known}`"
    listed = f"write one of {', '.join(PLAIN_TYPES)} or numeric(p, s)"
    return did_you_mean(word, PLAIN_TYPES, listed) or listed


def canonical_type(text: str) -> str:
    """One spelling for each type: `numeric(38, 0)` is `numeric(38)`."""
    return text.replace(" ", "").replace(",0)", ")") if text.startswith("numeric") else text
