"""Objects that somebody else wrote become those of an attempt: looked through, copied, listed.

What is committed lies where no task can write, and is exactly what was looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_core.dag.filters import FIELD
from trace_core.dag.model import Column
from trace_core.kernel.errors import Conflict, Invalid
from trace_core.kernel.limits import SPARK_OBJECT_MAX
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.errors import RowsInvalid
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity, Statistic, StoredObject
from trace_core.storage.objects import create_once, object_name, parquet_bytes
from trace_core.storage.rows import (
    arrow_schema,
    check_columns,
    check_cursors,
    check_keys,
    check_values,
    is_exact_text,
)
from trace_core.storage.statistics import extremes


def adopt_objects(
    store: ObjectStore,
    sources: Sequence[str],
    prefix: str,
    identity: ManifestIdentity,
    columns: Sequence[Column],
    *,
    name: str = "rows",
    cursor_column: str | None = None,
    unique_key: Sequence[str] = (),
) -> Manifest:
    """Copy Parquet objects under the attempt's staging prefix, and write their manifest last.

    Doing it again after a crash goes on where it stopped; other objects are a `Conflict`.
    """
    if not FIELD.fullmatch(name):
        raise Invalid("Objects are named with a-z, 0-9 and `_`.", field="name")
    check_columns(columns, unique_key)
    folder = scope_folder(prefix, identity.scope)
    required = (*unique_key, *((cursor_column,) if cursor_column else ()))
    written: list[StoredObject] = []
    for source in sources:
        data = bounded_bytes(store, source)
        rows, minimum, maximum = _look_through(
            data, source, columns, identity, cursor_column, unique_key, required
        )
        if rows:
            written.append(_keep(store, folder, name, identity, len(written), data, rows,
                                 minimum, maximum))  # fmt: skip
    if not written:
        # A scope without rows has an object that says so, as everywhere.
        data = parquet_bytes(arrow_schema(columns).empty_table())
        written.append(_keep(store, folder, name, identity, 0, data, 0, {}, {}))
    manifest = Manifest(
        identity.dataset_uuid, identity.dataset_version, identity.task_id, identity.attempt,
        identity.lease_sequence, identity.output_index, identity.scope, tuple(columns),
        tuple(written), cursor_column,
    )  # fmt: skip
    create_once(store, folder + MANIFEST_NAME, manifest.canonical().encode())
    return manifest


def _keep(
    store: ObjectStore,
    folder: str,
    name: str,
    identity: ManifestIdentity,
    number: int,
    data: bytes,
    rows: int,
    minimum: dict[str, Statistic],
    maximum: dict[str, Statistic],
) -> StoredObject:
    key = f"{folder}{object_name(name, identity.scope, number)}"
    create_once(store, key, data)
    return StoredObject(key, len(data), rows, hashlib.sha256(data).hexdigest(), minimum, maximum)


def bounded_bytes(store: ObjectStore, key: str) -> bytes:
    """An object that memory holds; a larger one is refused before it is read."""
    size = store.head(key).size
    if size > SPARK_OBJECT_MAX:
        raise RowsInvalid(
            f"An object of the output has {size} bytes, and {SPARK_OBJECT_MAX} fit: write the"
            " rows in more files (spark.sql.files.maxRecordsPerFile).",
            key=key,
        )
    data = store.read(key)
    if len(data) != size:
        raise Conflict("An object of the output was changed while it was read.", key=key)
    return data


def _look_through(
    data: bytes,
    key: str,
    columns: Sequence[Column],
    identity: ManifestIdentity,
    cursor_column: str | None,
    unique_key: Sequence[str],
    required: Sequence[str],
) -> tuple[int, dict[str, Statistic], dict[str, Statistic]]:
    """Rows, least and greatest values: each group of rows is read once and forgotten."""
    schema = arrow_schema(columns)
    # Exact numbers travel as text: their order would have to be found one by one.
    ordered = tuple(each for each in columns if not is_exact_text(each.type))
    minimum: dict[str, Statistic] = {}
    maximum: dict[str, Statistic] = {}
    unknown: set[str] = set()
    count = 0
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            if sorted(file.schema_arrow.names) != sorted(schema.names):
                raise RowsInvalid(
                    f"An object of the output has the columns {file.schema_arrow.names}, and the"
                    f" result says {schema.names}.",
                    key=key,
                )
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).select(schema.names).cast(schema)
                count += table.num_rows
                for column in required:
                    if table.column(column).null_count:
                        raise RowsInvalid(
                            f"Column {column} identifies or places rows, and holds a NULL.",
                            field=column,
                        )
                check_values(table, columns)
                for batch in table.to_batches():
                    check_keys(batch, unique_key)
                if cursor_column:
                    check_cursors(table.column(cursor_column), cursor_column, identity.scope)
                _widen(minimum, maximum, unknown, table, ordered)
            if count != file.metadata.num_rows:
                raise RowsInvalid("The footer of an object names another number of rows.", key=key)
    except (pa.ArrowException, KeyError) as error:
        raise RowsInvalid(f"An object of the output cannot be read: {error}", key=key) from error
    return (
        count,
        {name: each for name, each in minimum.items() if name not in unknown},
        {name: each for name, each in maximum.items() if name not in unknown},
    )


def _widen(
    minimum: dict[str, Any],
    maximum: dict[str, Any],
    unknown: set[str],
    table: pa.Table,
    columns: tuple[Column, ...],
) -> None:
    least, greatest = extremes(table, columns)
    for column in columns:
        name = column.name
        if name in least:
            low, high = least[name], greatest[name]
            # Texts of numbers and times have no order as texts do: one group says it, more do not.
            if name in minimum and not isinstance(low, int) and column.type != "text":
                if (low, high) != (minimum[name], maximum[name]):
                    unknown.add(name)
                continue
            minimum[name] = min(minimum.get(name, low), low)
            maximum[name] = max(maximum.get(name, high), high)
        elif table.column(name).null_count != table.num_rows:
            unknown.add(name)
