"""The columns of rows that nobody declared, from the types that they have in Arrow.

Where Arrow has only text, a field may say what it is: fields of rows that were read do, so that a
number of 78 digits which is passed on stays one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from trace_core.dag.model import Column
from trace_core.storage.errors import RowsInvalid
from trace_core.storage.rows import told_type

_TYPES: dict[pa.DataType, str] = {
    pa.string(): "text",
    pa.large_string(): "text",
    pa.string_view(): "text",
    pa.int8(): "smallint",
    pa.uint8(): "smallint",
    pa.int16(): "smallint",
    pa.uint16(): "integer",
    pa.int32(): "integer",
    pa.uint32(): "bigint",
    pa.int64(): "bigint",
    # One bit more than a bigint has.
    pa.uint64(): "numeric(20,0)",
    pa.bool_(): "boolean",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
}


def with_derived(known: Sequence[Column], schema: pa.Schema) -> list[Column]:
    """The known columns, and those that the rows have besides at the end."""
    names = {column.name for column in known}
    return [*known, *(_column(field) for field in schema if field.name not in names)]


def _column(field: pa.Field) -> Column:
    told = told_type(field)
    if told is not None:
        return Column(field.name, told)
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_decimal(kind):
        return Column(field.name, f"numeric({kind.precision},{kind.scale})")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return Column(field.name, "timestamptz")
    if pa.types.is_fixed_size_binary(kind):
        return Column(field.name, "bytea")
    if kind not in _TYPES:
        hint = "give it a time zone" if pa.types.is_timestamp(kind) else "cast it"
        raise RowsInvalid(
            f"Column {field.name} has the type {kind}, which no column can have: {hint}.",
            field=field.name,
        )
    return Column(field.name, _TYPES[kind])
