"""Rows of stored objects, a batch at a time, checked against what was committed."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from trace_core.dag.model import Column
from trace_core.kernel.errors import NotFound
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.errors import Damaged
from trace_core.storage.model import StoredObject
from trace_core.storage.rows import arrow_schema

WHOLE_BYTES_MAX = 64 * 1024 * 1024
"""Objects up to here are read in one go and their hash is checked; others in ranges, by size."""


def object_rows(
    store: ObjectStore, stored: StoredObject, columns: Sequence[Column], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    try:
        with _open(store, stored) as source, pq.ParquetFile(source) as file:
            if file.metadata.num_rows != stored.rows:
                raise Damaged(key=stored.key, reason="it has another number of rows")
            there = _columns_there(stored, schema, file.schema_arrow)
            for batch in file.iter_batches(batch_rows, columns=there):
                yield _with_nulls(batch, schema)
    except NotFound as error:
        raise Damaged(key=stored.key, reason="it is missing") from error
    except (pa.ArrowInvalid, KeyError) as error:
        raise Damaged(key=stored.key, reason="it does not hold the dataset's columns") from error


def _columns_there(stored: StoredObject, wanted: pa.Schema, found: pa.Schema) -> list[str]:
    """All that are wanted, but for those that were added after the object had been written."""
    there = [name for name in wanted.names if name in found.names]
    lost = [name for name in wanted.names if name not in found.names and name in stored.minimum]
    if lost:
        raise KeyError(lost[0])
    return there


def _with_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _open(store: ObjectStore, stored: StoredObject) -> pa.NativeFile:
    if stored.bytes > WHOLE_BYTES_MAX:
        if store.head(stored.key).size != stored.bytes:
            raise Damaged(key=stored.key, reason="it has another size")
        return pa.PythonFile(_Ranges(store, stored), mode="r")
    data = store.read(stored.key)
    if hashlib.sha256(data).hexdigest() != stored.sha256:
        raise Damaged(key=stored.key, reason="it has other contents")
    return pa.BufferReader(data)


class _Ranges(io.RawIOBase):
    """An object as a file: each read is one request."""

    def __init__(self, store: ObjectStore, stored: StoredObject) -> None:
        self._store, self._stored, self._at = store, stored, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._stored.bytes}
        self._at = origin[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = self._stored.bytes - self._at
        wanted = left if size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        data = self._store.read_range(self._stored.key, self._at, wanted)
        if len(data) != wanted:
            raise Damaged(key=self._stored.key, reason="it ends early")
        self._at += wanted
        return data
