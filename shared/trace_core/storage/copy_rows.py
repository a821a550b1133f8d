"""Rows as the CSV that COPY takes: ten times as fast as one value after the other."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

# Every value is in quotes and NULL is not, which is how COPY tells it from an empty text.
_OPTIONS = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid")


def csv_chunks(
    batches: Iterable[pa.RecordBatch],
    *,
    number: int,
    scope: str,
    bounds: tuple[int, int] | None,
    cursor_column: str | None,
    positions: bool = False,
) -> Iterator[bytes]:
    """The columns of the rows, then `_from`, `_scope`, `_start`, `_end`, and perhaps a position."""
    position = 0
    for batch in batches:
        count = batch.num_rows
        if not count:
            continue
        arrays = [_printable(array) for array in batch.columns]
        if cursor_column is not None:
            start = end = batch.column(cursor_column)
        else:
            start, end = (
                pa.nulls(count, pa.int64())
                if bounds is None
                else pa.repeat(pa.scalar(bound, pa.int64()), count)
                for bound in (bounds or (None, None))
            )
        arrays += [pa.repeat(pa.scalar(number), count), pa.repeat(pa.scalar(scope), count)]
        arrays += [start, end]
        if positions:
            arrays.append(pa.array(range(position, position + count)))
        position += count
        names = [str(index) for index in range(len(arrays))]
        target = io.BytesIO()
        pa_csv.write_csv(pa.RecordBatch.from_arrays(arrays, names), target, _OPTIONS)
        yield target.getvalue()


def _printable(array: Any) -> Any:
    if pa.types.is_binary(array.type):
        values = [None if each is None else f"\\x{each.hex()}" for each in array.to_pylist()]
        return pa.array(values, pa.string())
    return array
