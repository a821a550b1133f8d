"""The S3 layout at a pin: rows of the entries that are valid there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_core.dag.filter_arrow import matching
from trace_core.dag.filters import fields_of
from trace_core.dag.model import Column
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.object_rows import object_rows
from trace_core.storage.read_plan import ObjectToRead, PartToRead
from trace_core.storage.row_sql import quoted, row_sql
from trace_core.storage.rows import arrow_schema
from trace_core.storage.scopes import Range
from trace_core.storage.statistics import may_hold, may_overlap
from trace_core.storage.wanted import Wanted

# No column of a dataset can have such a name.
_HELPERS = (
    pa.field("#number", pa.int64()),
    pa.field("#position", pa.int64()),
    pa.field("#wanted", pa.bool_()),
)


class EntryRows:
    """What one read wants of one part."""

    def __init__(
        self, objects: ObjectStore, planned: PartToRead, wanted: Wanted, batch_rows: int
    ) -> None:
        self._objects = objects
        self._planned = planned
        self._wanted = wanted
        self._batch_rows = batch_rows
        self._types = {column.name: column.type for column in planned.part.columns}
        self._needed = self._needed_columns()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        where = self._wanted.where
        for batch in self._first_of_keys() if self._planned.first_of_key else self._placed_rows():
            kept = batch if where is None else batch.filter(matching(where, batch, self._types))
            if kept.num_rows:
                yield kept.select(self._wanted.names)

    def _needed_columns(self) -> tuple[Column, ...]:
        names = set(self._wanted.names)
        if self._wanted.where is not None:
            names |= set(fields_of(self._wanted.where))
        names |= set(self._planned.first_of_key)
        names |= {
            each.cursor_column
            for each in self._planned.objects
            if each.cursor_column is not None and each.keep is not None
        }
        return tuple(column for column in self._planned.part.columns if column.name in names)

    def _placed_rows(self) -> Iterator[pa.RecordBatch]:
        for each in self._planned.objects:
            if self._may_hold(each):
                for batch in self._rows(each):
                    mask = _mask(batch, each)
                    yield batch if mask is None else batch.filter(mask)

    def _first_of_keys(self) -> Iterator[pa.RecordBatch]:
        """Appended rows: which row of a key came first can only be said over all commits."""
        schema = arrow_schema(self._needed)
        with row_sql() as sql:
            with_helpers = pa.schema([*schema, *_HELPERS])
            sql.give(with_helpers, self._numbered(with_helpers))
            found = sql.stream(
                "first_of_key",
                columns=quoted(*schema.names),
                key=quoted(*self._planned.first_of_key),
            )
            for batch in found:
                yield batch.cast(schema)

    def _numbered(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Positions go up over all objects, which are in the order of their commits."""
        position = 0
        for each in self._planned.objects:
            for batch in self._rows(each):
                count = batch.num_rows
                mask = _mask(batch, each)
                yield pa.RecordBatch.from_arrays(
                    [
                        *batch.columns,
                        pa.repeat(pa.scalar(each.number, pa.int64()), count),
                        pa.array(range(position, position + count), pa.int64()),
                        pa.repeat(pa.scalar(True), count) if mask is None else mask,
                    ],
                    schema=schema,
                )
                position += count

    def _rows(self, each: ObjectToRead) -> Iterator[pa.RecordBatch]:
        yield from object_rows(self._objects, each.stored, self._needed, self._batch_rows)

    def _may_hold(self, each: ObjectToRead) -> bool:
        if each.keep is not None and each.cursor_column is not None:
            cursor = each.cursor_column
            if not any(may_overlap(each.stored, cursor, *bounds) for bounds in each.keep):
                return False
        return may_hold(self._wanted.where, each.stored, self._types)


def _mask(batch: pa.RecordBatch, each: ObjectToRead) -> Any:
    """The rows that the plan keeps; None: all."""
    if each.keep is None:
        return None
    mask = pa.repeat(pa.scalar(False), batch.num_rows)
    if each.cursor_column is not None:
        cursors = batch.column(each.cursor_column)
        for bounds in each.keep:
            mask = pc.or_(mask, _inside(cursors, bounds))
    return mask


def _inside(cursors: Any, bounds: Range) -> Any:
    first, last = (pa.scalar(bound, pa.int64()) for bound in bounds)
    return pc.and_(pc.greater_equal(cursors, first), pc.less_equal(cursors, last))
