"""Rows as Arrow: the one form in which they are written, stored and read.

| column | Arrow |
|---|---|
| text | string |
| smallint, integer, bigint | int16, int32, int64 |
| boolean, real, double precision | bool, float32, float64 |
| numeric(p, s) up to 38 digits | decimal128(p, s) |
| numeric, numeric(p, s) above | string: the exact decimal text, as a uint256 needs it |
| timestamptz, date | timestamp[us, UTC], date32 |
| bytea | binary |
| uuid, jsonb | string, in one spelling for one value |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_core.dag.column_types import NUMERIC_PRECISION_MAX, is_column_type
from trace_core.dag.filters import FIELD
from trace_core.dag.model import Column
from trace_core.kernel.scopes import Scope
from trace_core.storage import column_values
from trace_core.storage.errors import RowsInvalid
from trace_core.storage.scopes import WHOLE

HIDDEN_COLUMNS = ("_from", "_to", "_scope", "_start", "_end")
"""What Postgres keeps beside each row; no reader sees them."""
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_NO_KEY_TYPES = frozenset({"real", "double precision", "jsonb"})
KEY_BYTES_MAX = 2000
"""Of a unique key's text: an entry of a Postgres index holds no more than 2704 bytes."""
ARROW_DIGITS_MAX = 38
TYPE_KEY = b"trace_type"
"""Metadata of a field that is text in Arrow and something else in a dataset."""
_NUMERIC = re.compile(r"numeric\(([0-9]+)(?:, ?([0-9]+))?\)")
_PLAIN: dict[str, pa.DataType] = {
    "text": pa.string(),
    "bigint": pa.int64(),
    "integer": pa.int32(),
    "smallint": pa.int16(),
    "boolean": pa.bool_(),
    "double precision": pa.float64(),
    "real": pa.float32(),
    "numeric": pa.string(),
    "jsonb": pa.string(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "bytea": pa.binary(),
    "uuid": pa.string(),
}
_FIRST_TIME, _LAST_TIME = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def check_columns(columns: Sequence[Column], unique_key: Sequence[str] = ()) -> None:
    """Raise `RowsInvalid` for a table that could not be made."""
    if not columns:
        raise RowsInvalid("A dataset has at least one column.", field="columns")
    types = {column.name: column.type for column in columns}
    for column in columns:
        if not FIELD.fullmatch(column.name) or column.name in _SYSTEM_COLUMNS:
            raise RowsInvalid(f"{column.name!r} is no name of a column; rename it.")
        if column.name in HIDDEN_COLUMNS:
            raise RowsInvalid(f"{column.name!r} is taken by the platform; rename the column.")
        if not is_column_type(column.type):
            raise RowsInvalid(f"{column.type!r} is no type of a column.", field=column.name)
    if len(types) != len(columns):
        raise RowsInvalid("A column is listed twice.", field="columns")
    for name in unique_key:
        if name not in types:
            raise RowsInvalid(f"The unique key names {name!r}, which is no column.", field=name)
        if types[name] in _NO_KEY_TYPES:
            raise RowsInvalid(f"Values of type {types[name]} cannot identify rows.", field=name)


def numeric_size(column_type: str) -> tuple[int, int] | None:
    """Precision and scale, where the type states them."""
    match = _NUMERIC.fullmatch(column_type)
    return (int(match[1]), int(match[2] or 0)) if match else None


def arrow_type(column_type: str) -> pa.DataType:
    size = numeric_size(column_type)
    if size is None:
        return _PLAIN[column_type]
    return pa.decimal128(*size) if size[0] <= ARROW_DIGITS_MAX else pa.string()


def is_exact_text(column_type: str) -> bool:
    """A number that travels as its decimal text."""
    return column_type.startswith("numeric") and arrow_type(column_type) == pa.string()


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The types in Arrow; a field says its own where Arrow has only text for it."""
    return pa.schema([_field(column) for column in columns])


def _field(column: Column) -> pa.Field:
    kind = arrow_type(column.type)
    more_than_text = kind == pa.string() and column.type != "text"
    told = {TYPE_KEY: column.type.encode()} if more_than_text else None
    return pa.field(column.name, kind, metadata=told)


def told_type(field: pa.Field) -> str | None:
    """What a field says of itself, if that is a type which it can have."""
    told = (field.metadata or {}).get(TYPE_KEY, b"").decode(errors="replace")
    return told if is_column_type(told) and arrow_type(told) == field.type else None


def conformed(
    rows: pa.Table | pa.RecordBatchReader,
    columns: Sequence[Column],
    *,
    required: Sequence[str] = (),
    batch_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """The rows in the types and the spelling in which they are stored; refuses what does not fit.

    `required` columns hold no NULL.
    """
    names, known = set(rows.schema.names), {column.name for column in columns}
    if names != known or len(names) != len(rows.schema.names):
        missing, extra = sorted(known - names), sorted(names - known)
        raise RowsInvalid(
            f"The rows lack {missing or 'no column'} and have {extra or 'none'} too many;"
            " write exactly the columns of the dataset."
        )
    batches = rows.to_batches(max_chunksize=batch_rows) if isinstance(rows, pa.Table) else rows
    schema = arrow_schema(columns)
    for batch in batches:
        arrays = []
        for column in columns:
            array = _conform(batch.column(batch.schema.get_field_index(column.name)), column)
            if column.name in required and array.null_count:
                raise RowsInvalid(
                    f"Column {column.name} identifies or places rows, and holds a NULL.",
                    field=column.name,
                )
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_keys(batch: pa.RecordBatch, unique_key: Sequence[str]) -> None:
    """Keys must fit an index, in every layout alike."""
    for name in unique_key:
        array = batch.column(name)
        if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
            continue
        longest = pc.max(pc.binary_length(array)).as_py() or 0
        if longest * len(unique_key) > KEY_BYTES_MAX:
            raise RowsInvalid(
                f"A value of {name} has {longest} bytes, too many for a unique key; hash it.",
                field=name,
            )


def check_values(table: pa.Table, columns: Sequence[Column]) -> None:
    """What Arrow holds and a dataset does not: for rows that somebody else has written."""
    for column in columns:
        try:
            _check_values(table.column(column.name), column.type)
        except ValueError as error:
            raise RowsInvalid(
                f"Column {column.name} ({column.type}): a value {error}.", field=column.name
            ) from error


def check_cursors(array: Any, column: str, scope: Scope) -> None:
    """Each row lies inside the scope that it is committed with."""
    if not pa.types.is_integer(array.type):
        raise RowsInvalid(f"A cursor is a whole number, and {column} is {array.type}.")
    if scope.range is None:
        if scope != WHOLE:
            raise RowsInvalid(
                "Rows with cursors of their own need a scope with a range, or all of the dataset.",
                field="scope",
            )
        return
    if not len(array):
        return
    ends = pc.min_max(array).as_py()
    if ends["min"] < scope.range[0] or ends["max"] > scope.range[1]:
        raise RowsInvalid(
            f"{column} goes from {ends['min']} to {ends['max']}, outside the scope's"
            f" {scope.range[0]}-{scope.range[1]}.",
            field=column,
        )


def _conform(array: Any, column: Column) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = arrow_type(column.type)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if not _fits(array.type, column.type):
        raise RowsInvalid(
            f"Column {column.name} is {column.type}, and cannot hold {array.type}.",
            field=column.name,
        )
    try:
        respell = _respelling(column.type)
        if respell is not None and not _is_spelled(array, column.type):
            values = [None if each is None else respell(each) for each in array.to_pylist()]
            return pa.array(values, wanted)
        array = array.cast(wanted)
        array.validate(full=True)
        _check_values(array, column.type)
    except (pa.ArrowInvalid, ValueError, OverflowError) as error:
        raise RowsInvalid(
            f"Column {column.name} ({column.type}): a value {error}.", field=column.name
        ) from error
    return array


def _fits(given: pa.DataType, column_type: str) -> bool:
    kinds = pa.types
    text = any(
        each(given) for each in (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    )
    match column_type.split("(")[0]:
        case "text" | "jsonb":
            return text
        case "uuid":
            return text or bool(given == pa.binary(16))
        case "bigint" | "integer" | "smallint":
            return bool(kinds.is_integer(given))
        case "boolean":
            return bool(kinds.is_boolean(given))
        case "double precision" | "real":
            return bool(kinds.is_floating(given) or kinds.is_integer(given))
        case "numeric":
            return bool(text or kinds.is_integer(given) or kinds.is_decimal(given))
        case "timestamptz":
            # Without a time zone nobody knows which instant is meant.
            return bool(kinds.is_timestamp(given) and given.tz is not None)
        case "date":
            return bool(kinds.is_date(given))
        case _:
            return bool(
                kinds.is_binary(given)
                or kinds.is_large_binary(given)
                or kinds.is_fixed_size_binary(given)
            )


def _respelling(column_type: str) -> Callable[[Any], Any] | None:
    """For types of which one value has several texts, or that Arrow would round."""
    if column_type == "uuid":
        return _uuid
    if column_type == "jsonb":
        return column_values.canonical_jsonb
    if column_type.startswith("numeric"):
        return partial(_number, numeric_size(column_type))
    return None


def _is_spelled(array: Any, column_type: str) -> bool:
    """Most writers spell alike; looking at all values at once takes a fraction of respelling."""
    if not pa.types.is_string(array.type):
        return False
    if column_type == "uuid":
        pattern = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z"
    elif is_exact_text(column_type):
        precision, scale = numeric_size(column_type) or (NUMERIC_PRECISION_MAX, 0)
        if scale:
            return False
        pattern = rf"^(0|-?[1-9][0-9]{{0,{precision - 1}}})\z"
    else:
        return False
    return bool(pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py())


def _uuid(value: str | bytes) -> str:
    return column_values.canonical_uuid(value if isinstance(value, str) else value.hex())


def _number(size: tuple[int, int] | None, value: Any) -> Any:
    precision, scale = size or (None, None)
    text = column_values.canonical_number(str(value), precision, scale)
    if precision is not None and precision <= ARROW_DIGITS_MAX:
        return Decimal(text)
    return text


def _check_values(array: Any, column_type: str) -> None:
    if column_type == "text" and pc.any(pc.match_substring(array, "\0")).as_py():
        raise ValueError("has a NUL character, which Postgres cannot store")
    if column_type == "timestamptz":
        ends = (pa.scalar(each, array.type) for each in (_FIRST_TIME, _LAST_TIME))
    elif column_type == "date":
        ends = (pa.scalar(each, array.type) for each in (date.min, date.max))
    else:
        return
    first, last = ends
    out = pc.or_(pc.less(array, first), pc.greater(array, last))
    if pc.any(out).as_py():
        raise ValueError("lies outside the years 1 to 9999")
