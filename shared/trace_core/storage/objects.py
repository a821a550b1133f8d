"""The S3 layout: rows as Parquet objects in the folder of an attempt, and a manifest written last.

Nothing is renamed or replaced. What counts is what the manifest lists, and a manifest counts once
it is committed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from trace_core.dag.filters import FIELD
from trace_core.dag.model import Column
from trace_core.kernel.errors import Conflict, Invalid
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity, StoredObject
from trace_core.storage.parquet_settings import parquet_settings
from trace_core.storage.rows import (
    arrow_schema,
    check_columns,
    check_cursors,
    check_keys,
    conformed,
)
from trace_core.storage.statistics import extremes
from trace_core.storage.stored_manifests import Differences, rehash, verify_manifest

__all__ = ["Differences", "parquet_bytes", "rehash", "verify_manifest", "write_objects"]

ROWS_PER_OBJECT = 500_000
ROWS_PER_GROUP = 65_536


def write_objects(
    store: ObjectStore,
    prefix: str,
    identity: ManifestIdentity,
    columns: Sequence[Column],
    rows: pa.Table | pa.RecordBatchReader,
    *,
    name: str = "rows",
    cursor_column: str | None = None,
    unique_key: Sequence[str] = (),
    rows_per_object: int = ROWS_PER_OBJECT,
) -> Manifest:
    """Write the rows of one scope, then its manifest; the same rows give the same bytes.

    `prefix` is the attempt's staging prefix. Doing it again after a crash goes on where it
    stopped; other rows under the same prefix are a `Conflict`.
    """
    if not FIELD.fullmatch(name):
        raise Invalid("Objects are named with a-z, 0-9 and `_`.", field="name")
    check_columns(columns, unique_key)
    required = [*unique_key, *([cursor_column] if cursor_column else [])]
    folder = scope_folder(prefix, identity.scope)
    written = []
    pieces = _pieces(conformed(rows, columns, required=required), columns, rows_per_object)
    for number, table in enumerate(pieces):
        for batch in table.to_batches():
            check_keys(batch, unique_key)
        if cursor_column:
            check_cursors(table.column(cursor_column), cursor_column, identity.scope)
        data = parquet_bytes(table)
        key = f"{folder}{object_name(name, identity.scope, number)}"
        create_once(store, key, data)
        digest = hashlib.sha256(data).hexdigest()
        minimum, maximum = extremes(table, tuple(columns))
        written.append(StoredObject(key, len(data), table.num_rows, digest, minimum, maximum))
    manifest = Manifest(
        identity.dataset_uuid,
        identity.dataset_version,
        identity.task_id,
        identity.attempt,
        identity.lease_sequence,
        identity.output_index,
        identity.scope,
        tuple(columns),
        tuple(written),
        cursor_column,
    )
    create_once(store, folder + MANIFEST_NAME, manifest.canonical().encode())
    return manifest


def parquet_bytes(table: pa.Table) -> bytes:
    """One Parquet file; nothing in it depends on when, where or from which chunks it was made."""
    target = io.BytesIO()
    pq.write_table(
        table.combine_chunks().replace_schema_metadata(None),
        target,
        row_group_size=ROWS_PER_GROUP,
        **parquet_settings(table.schema),
    )
    return target.getvalue()


def _pieces(
    batches: Iterator[pa.RecordBatch], columns: Sequence[Column], size: int
) -> Iterator[pa.Table]:
    """Tables of `size` rows, however the batches were cut; one without rows if there are none."""
    schema, held, count, made = arrow_schema(columns), [], 0, 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= size:
            table = pa.Table.from_batches(held, schema)
            yield table.slice(0, size)
            made += 1
            held, count = table.slice(size).to_batches(), count - size
    if count or not made:
        yield pa.Table.from_batches(held, schema)


def object_name(name: str, scope: Scope, number: int) -> str:
    bounds = f"_{scope.range[0]}_{scope.range[1]}" if scope.range else ""
    further = f"_part{number:04}" if number else ""
    return f"{name}{bounds}{further}.parquet"


def create_once(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        store.create(key, data)
    except Conflict:
        # This attempt was here before and lost its way; it may only have written the same.
        if store.read(key) != data:
            raise
