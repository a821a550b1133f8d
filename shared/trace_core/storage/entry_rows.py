"""The S3 layout at a pin: rows of the entries that are valid there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_core.dag.filter_arrow import matching
from trace_core.dag.filters import fields_of
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.model import Entry, PinnedPart, StoredObject
from trace_core.storage.object_rows import object_rows
from trace_core.storage.row_sql import quoted, row_sql
from trace_core.storage.rows import arrow_schema
from trace_core.storage.scopes import overlap
from trace_core.storage.statistics import may_hold, may_overlap
from trace_core.storage.wanted import Range, Wanted

_HELPERS = (
    pa.field("_number", pa.int64()),
    pa.field("_position", pa.int64()),
    pa.field("_wanted", pa.bool_()),
)


class EntryRows:
    """What one read wants of one part."""

    def __init__(
        self, objects: ObjectStore, part: PinnedPart, wanted: Wanted, batch_rows: int
    ) -> None:
        self._objects = objects
        self._part = part
        self._wanted = wanted
        self._batch_rows = batch_rows
        self._types = {column.name: column.type for column in part.columns}
        self._first_wins = part.update_strategy is UpdateStrategy.APPEND and bool(part.unique_key)
        self._needed = self._needed_columns()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        where = self._wanted.where
        for batch in self._first_of_keys() if self._first_wins else self._placed_rows():
            kept = batch if where is None else batch.filter(matching(where, batch, self._types))
            if kept.num_rows:
                yield kept.select(self._wanted.names)

    def _needed_columns(self) -> tuple[Column, ...]:
        names = set(self._wanted.names)
        if self._wanted.where is not None:
            names |= set(fields_of(self._wanted.where))
        if self._first_wins:
            names |= set(self._part.unique_key)
        if self._part.cursor_column is not None:
            names.add(self._part.cursor_column)
        return tuple(column for column in self._part.columns if column.name in names)

    def _placed_rows(self) -> Iterator[pa.RecordBatch]:
        for entry in self._part.live_entries():
            if self._may_want(entry):
                objects = [each for each in entry.objects if self._may_hold(each)]
                for batch in self._rows(objects):
                    mask = self._mask(batch, entry)
                    yield batch if mask is None else batch.filter(mask)

    def _first_of_keys(self) -> Iterator[pa.RecordBatch]:
        """Appended rows: which row of a key came first can only be said over all commits."""
        schema = arrow_schema(self._needed)
        with row_sql() as sql:
            with_helpers = pa.schema([*schema, *_HELPERS])
            sql.give(with_helpers, self._numbered(with_helpers))
            found = sql.stream(
                "first_of_key", columns=quoted(*schema.names), key=quoted(*self._part.unique_key)
            )
            for batch in found:
                yield batch.cast(schema)

    def _numbered(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        entries = self._part.live_entries()
        last = max((entry.number for entry in entries if self._may_want(entry)), default=0)
        for entry in entries:
            if entry.number > last:
                return
            position = 0
            for batch in self._rows(entry.objects):
                count = batch.num_rows
                mask = self._mask(batch, entry) if self._may_want(entry) else _all(False, count)
                yield pa.RecordBatch.from_arrays(
                    [
                        *batch.columns,
                        pa.repeat(pa.scalar(entry.number, pa.int64()), count),
                        pa.array(range(position, position + count), pa.int64()),
                        _all(True, count) if mask is None else mask,
                    ],
                    schema=schema,
                )
                position += count

    def _rows(self, objects: Iterable[StoredObject]) -> Iterator[pa.RecordBatch]:
        for stored in objects:
            if stored.rows:
                yield from object_rows(self._objects, stored, self._needed, self._batch_rows)

    def _may_want(self, entry: Entry) -> bool:
        scope = self._wanted.scope
        if scope is not None and not overlap(entry.scope, scope):
            return False
        by_row = self._part.cursor_column is not None
        return by_row or entry.scope.range is None or not self._is_cold(entry.scope.range)

    def _is_cold(self, bounds: Range) -> bool:
        return any(start <= bounds[0] and bounds[1] <= end for start, end in self._wanted.cold)

    def _may_hold(self, stored: StoredObject) -> bool:
        cursor, scope = self._part.cursor_column, self._wanted.scope
        if cursor and scope and scope.range and not may_overlap(stored, cursor, *scope.range):
            return False
        return may_hold(self._wanted.where, stored, self._types)

    def _mask(self, batch: pa.RecordBatch, entry: Entry) -> Any:
        """Rows with cursors of their own that lie in scope and in no colder part; None: all."""
        if self._part.cursor_column is None:
            return None
        cursors = batch.column(self._part.cursor_column)
        mask = None
        if self._wanted.scope is not None and self._wanted.scope.range is not None:
            mask = _inside(cursors, self._wanted.scope.range)
        for bounds in self._wanted.cold:
            if entry.scope.range is None or overlap_of(entry.scope.range, bounds):
                warm = pc.invert(_inside(cursors, bounds))
                mask = warm if mask is None else pc.and_(mask, warm)
        return mask


def overlap_of(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _inside(cursors: Any, bounds: Range) -> Any:
    first, last = (pa.scalar(bound, pa.int64()) for bound in bounds)
    return pc.and_(pc.greater_equal(cursors, first), pc.less_equal(cursors, last))


def _all(value: bool, count: int) -> Any:
    return pa.repeat(pa.scalar(value), count)
