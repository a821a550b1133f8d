"""Rows in files of Arrow's own format, which are read without copying them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

from trace_core.storage.errors import RowsInvalid


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pa.OSFile(str(path), "wb") as file, ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def open_rows(path: Path) -> pa.Table:
    """The rows of a file; they stay there until they are used, also when it has been deleted."""
    try:
        return ipc.open_file(pa.memory_map(str(path))).read_all()
    except pa.ArrowInvalid as error:
        raise RowsInvalid(f"{path.name} is no whole Arrow file: {error}.") from error
