"""The pinned reader: exactly the rows of a pin, the same from every layout.

Everything that reads rows of datasets goes through here: tasks, checks, queries, exports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from trace_core.dag.filter_postgres import to_postgres
from trace_core.dag.filters import Predicate
from trace_core.dag.model import Column
from trace_core.database.arrays import Bigints
from trace_core.database.data import Condition, DataDatabase, Places, Selected
from trace_core.database.sql import Statements
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.column_values import canonical_jsonb, canonical_number
from trace_core.storage.entry_rows import EntryRows
from trace_core.storage.model import Backend, PinnedPart
from trace_core.storage.read_plan import PartToRead, read_plan
from trace_core.storage.rows import arrow_schema, is_exact_text
from trace_core.storage.wanted import Wanted, wanted

_SQL = Statements("trace_core.storage", "reader.sql")
BATCH_ROWS = 16_384


class PinnedReader:
    """Reads parts. A stream holds a few batches, and for Postgres a connection, until it ends."""

    def __init__(
        self, objects: ObjectStore, data: DataDatabase, *, batch_rows: int = BATCH_ROWS
    ) -> None:
        self._objects = objects
        self._data = data
        self._batch_rows = batch_rows

    def read(
        self,
        part: PinnedPart,
        *,
        scope: Scope | None = None,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of one part, in no particular order."""
        return self.relation([part], scope=scope, columns=columns, where=where)

    def table(
        self,
        part: PinnedPart,
        *,
        scope: Scope | None = None,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
    ) -> pa.Table:
        """All of them at once."""
        return self.read(part, scope=scope, columns=columns, where=where).read_all()

    def relation(
        self,
        parts: Sequence[PinnedPart],
        *,
        scope: Scope | None = None,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """Several parts as one relation, from hot to cold: a range that a later S3 part covers at
        its pin is read from there only."""
        asked = wanted(parts, columns, where)
        batches = (
            batch
            for planned in read_plan(parts, scope)
            if planned.part.columns
            for batch in self._rows(planned, asked)
        )
        return pa.RecordBatchReader.from_batches(arrow_schema(asked.columns), batches)

    def planned(
        self,
        planned: PartToRead,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """What one part gives of a relation: of Postgres the rows that no colder part has."""
        asked = wanted([planned.part], columns, where)
        return pa.RecordBatchReader.from_batches(
            arrow_schema(asked.columns), self._rows(planned, asked)
        )

    def _rows(self, planned: PartToRead, asked: Wanted) -> Iterator[pa.RecordBatch]:
        if planned.part.backend is Backend.S3:
            yield from EntryRows(self._objects, planned, asked, self._batch_rows)
        else:
            yield from self._of_postgres(planned, asked)

    def _of_postgres(self, planned: PartToRead, asked: Wanted) -> Iterator[pa.RecordBatch]:
        part, scope = planned.part, planned.scope
        condition, params = ("TRUE", {}) if asked.where is None else to_postgres(asked.where)
        start_at, end_at = (scope.range if scope else None) or (None, None)
        given = {
            **params,
            "pin": part.pin.number,
            "scope": scope.key if scope else None,
            "start_at": start_at,
            "end_at": end_at,
            "cold_starts": Bigints([start for start, _ in planned.cold]),
            "cold_ends": Bigints([end for _, end in planned.cold]),
        }
        places: Places = {
            "schema": part.schema_name,
            "table": part.table_name,
            "selected": Selected(tuple((each.name, _as_text(each)) for each in asked.columns)),
            "where": Condition(condition),
        }
        statement = _SQL[_statement(part, scope)]
        for rows in self._data.stream(statement, given, places, batch_rows=self._batch_rows):
            yield _batch(rows, asked.columns)


def _statement(part: PinnedPart, scope: Scope | None) -> str:
    if scope is None:
        return "all_rows"
    if scope.range is None:
        return "rows_of_scope"
    return "rows_at_cursors" if part.cursor_column else "rows_of_range"


def _as_text(column: Column) -> bool:
    """What Python would round, or spell in its own way."""
    return column.type in ("uuid", "jsonb") or is_exact_text(column.type)


def _batch(rows: list[tuple[Any, ...]], columns: Sequence[Column]) -> pa.RecordBatch:
    schema = arrow_schema(columns)
    arrays = [
        pa.array(_spelled(values, column.type), schema.field(column.name).type)
        for values, column in zip(zip(*rows, strict=True), columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spelled(values: tuple[Any, ...], column_type: str) -> Sequence[Any]:
    """Texts of Postgres in the spelling of the rows that were written."""
    if column_type == "jsonb":
        return [None if each is None else canonical_jsonb(each) for each in values]
    if column_type == "numeric":
        # With a stated scale Postgres has one spelling, which is ours.
        return [None if each is None else canonical_number(each, None, None) for each in values]
    return values
