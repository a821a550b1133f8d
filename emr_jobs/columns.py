"""Column types of datasets beside those of Spark.

| column | Spark |
|---|---|
| text, uuid, jsonb | string |
| smallint, integer, bigint | smallint, int, bigint |
| boolean, real, double precision | boolean, float, double |
| numeric(p, s) up to 38 digits | decimal(p, s) |
| numeric, numeric(p, s) above | string: the exact decimal text, as a uint256 needs it |
| timestamptz, date, bytea | timestamp, date, binary |

Where Spark knows less than the platform, a column carries its type as metadata, which Spark keeps
as long as the column is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from emr_jobs.task import OperatorFailed
from trace_core.spark.wire import SparkColumn
from trace_core.storage.column_values import canonical_jsonb

DIGITS_MAX = 38
TYPE_KEY = "trace_type"

_NUMERIC = re.compile(r"numeric\(([0-9]+)(?:, ?([0-9]+))?\)")
_TO_SPARK: dict[str, S.DataType] = {
    "text": S.StringType(),
    "uuid": S.StringType(),
    "jsonb": S.StringType(),
    "numeric": S.StringType(),
    "bigint": S.LongType(),
    "integer": S.IntegerType(),
    "smallint": S.ShortType(),
    "boolean": S.BooleanType(),
    "real": S.FloatType(),
    "double precision": S.DoubleType(),
    "timestamptz": S.TimestampType(),
    "date": S.DateType(),
    "bytea": S.BinaryType(),
}
_FROM_SPARK: dict[type[S.DataType], str] = {
    S.StringType: "text",
    S.LongType: "bigint",
    S.IntegerType: "integer",
    S.ShortType: "smallint",
    S.ByteType: "smallint",
    S.BooleanType: "boolean",
    S.FloatType: "real",
    S.DoubleType: "double precision",
    S.TimestampType: "timestamptz",
    S.DateType: "date",
    S.BinaryType: "bytea",
}
_WHOLE = (S.LongType, S.IntegerType, S.ShortType, S.ByteType)
# To Java `$` is also the place before a last line break.
_NUMBER = r"^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]+)\z"
_CANONICAL_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z"


def numeric_size(column_type: str) -> tuple[int, int] | None:
    match = _NUMERIC.fullmatch(column_type)
    return (int(match[1]), int(match[2] or 0)) if match else None


def spark_type(column_type: str) -> S.DataType:
    size = numeric_size(column_type)
    if size is not None:
        return S.DecimalType(*size) if size[0] <= DIGITS_MAX else S.StringType()
    try:
        return _TO_SPARK[column_type]
    except KeyError:
        raise OperatorFailed(f"{column_type!r} is no type of a column") from None


def is_exact_text(column_type: str) -> bool:
    """A number that travels as its decimal text."""
    return column_type.startswith("numeric") and isinstance(spark_type(column_type), S.StringType)


def spark_schema(columns: Sequence[SparkColumn]) -> S.StructType:
    return S.StructType([S.StructField(each.name, spark_type(each.type)) for each in columns])


def typed(column: Column, name: str, column_type: str) -> Column:
    """A column under its name, which knows its own type also where Spark has only text."""
    return column.alias(name, metadata={TYPE_KEY: column_type})


def column_type_of(field: S.StructField) -> str:
    """The type that a column of a frame has as a column of a dataset."""
    told = (field.metadata or {}).get(TYPE_KEY)
    if isinstance(told, str) and spark_type(told) == field.dataType:
        return told
    if isinstance(field.dataType, S.DecimalType):
        precision, scale = field.dataType.precision, field.dataType.scale
        return f"numeric({precision},{scale})" if scale else f"numeric({precision})"
    found = _FROM_SPARK.get(type(field.dataType))
    if found is None:
        raise OperatorFailed(
            f"column {field.name} is {field.dataType.simpleString()}, which no dataset can hold; "
            "cast it, or write it as text with to_json"
        )
    return found


def columns_of(frame: DataFrame) -> tuple[SparkColumn, ...]:
    return tuple(SparkColumn(each.name, column_type_of(each)) for each in frame.schema.fields)


def typed_frame(frame: DataFrame, columns: Sequence[SparkColumn]) -> DataFrame:
    """Exactly these columns of a frame that has them, each knowing its type."""
    return frame.select(*(typed(F.col(each.name), each.name, each.type) for each in columns))


def conformed(frame: DataFrame, columns: Sequence[SparkColumn]) -> DataFrame:
    """The frame in the columns of its dataset; a column that does not fit is refused by name."""
    given = {each.name: each for each in frame.schema.fields}
    known = [each.name for each in columns]
    missing, extra = sorted(set(known) - set(given)), sorted(set(given) - set(known))
    if missing or extra or len(given) != len(frame.schema.fields):
        raise OperatorFailed(
            f"the rows lack {', '.join(missing) or 'no column'} and have "
            f"{', '.join(extra) or 'none'} too many; write exactly the columns of the dataset"
        )
    return frame.select(
        *(typed(_conformed(given[each.name], each), each.name, each.type) for each in columns)
    )


def _conformed(field: S.StructField, column: SparkColumn) -> Column:
    value, wanted = F.col(field.name), spark_type(column.type)
    if column_type_of(field).replace(" ", "") == column.type.replace(" ", ""):
        return value if field.dataType == wanted else value.cast(wanted)
    if not _fits(field.dataType, column.type):
        raise OperatorFailed(
            f"column {column.name} is {column.type} and cannot hold "
            f"{field.dataType.simpleString()}; cast it"
        )
    if is_exact_text(column.type):
        return _spelled_number(value.cast("string"), column)
    if column.type == "jsonb":
        found = F.udf(_json_text, S.StringType())(value)
        return _known(found, value.isNull() | found.isNotNull(), column)
    if column.type == "uuid":
        return _spelled(F.lower(value), _CANONICAL_UUID, column)
    return value.cast(wanted)


def _spelled_number(text: Column, column: SparkColumn) -> Column:
    """In the one spelling that equal numbers have: 1.50 and 1.5 are told apart as text."""
    size = numeric_size(column.type)
    if size is None:
        canonical = r"^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9])\z"
    else:
        left = size[0] - size[1]
        whole = f"0|[1-9][0-9]{{0,{left - 1}}}" if left else "0"
        places = rf"\.[0-9]{{{size[1]}}}" if size[1] else ""
        canonical = rf"^(-(?=.*[1-9]))?({whole}){places}\z"
    short = F.when(F.instr(text, ".") > 0, F.regexp_replace(text, r"\.?0+\z", "")).otherwise(text)
    found = F.when(short == "-0", F.lit("0")).otherwise(short)
    if size is not None and size[1]:
        given = F.when(F.instr(found, ".") > 0, F.substring_index(found, ".", -1)).otherwise("")
        # No digit is cut off: more places than there are stay, and are refused.
        padded = F.when(F.length(given) < size[1], F.rpad(given, size[1], "0")).otherwise(given)
        found = F.concat(F.substring_index(found, ".", 1), F.lit("."), padded)
    respelled = F.when(text.rlike(_NUMBER), found).otherwise(text)
    return F.when(text.rlike(canonical), text).otherwise(_spelled(respelled, canonical, column))


def _json_text(text: str | None) -> str | None:
    """In the platform's one spelling; nothing where it is no JSON. Runs in Python workers."""
    try:
        return None if text is None else canonical_jsonb(text)
    except ValueError:
        return None


def _spelled(text: Column, pattern: str, column: SparkColumn) -> Column:
    return _known(text, text.isNull() | text.rlike(pattern), column)


def _known(text: Column, is_one: Column, column: SparkColumn) -> Column:
    told = f"column {column.name} is {column.type}, and a value is not written as one or is longer"
    return F.when(is_one, text).otherwise(F.raise_error(F.lit(told)).cast("string"))


def _fits(given: S.DataType, column_type: str) -> bool:
    size = numeric_size(column_type)
    match column_type.split("(")[0]:
        case "text" | "jsonb" | "uuid":
            return isinstance(given, S.StringType)
        case "bigint" | "integer" | "smallint":
            return isinstance(given, _WHOLE)
        case "double precision" | "real":
            return isinstance(given, (S.FloatType, S.DoubleType, *_WHOLE))
        case "numeric":
            if isinstance(given, S.DecimalType):
                # Digits behind the point are never rounded away in passing.
                return size is None or given.scale <= size[1]
            exact = size is None or size[0] > DIGITS_MAX
            return isinstance(given, _WHOLE) or (exact and isinstance(given, S.StringType))
        case _:
            return given == spark_type(column_type)
