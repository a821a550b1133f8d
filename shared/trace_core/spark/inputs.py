"""What a run reads: objects by their names, and what lies in Postgres, exported for it.

A trusted step: the run itself holds no credentials and never opens Postgres.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

from trace_core.dag.filter_parser import parse_text
from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.registry.pins import PinResolver
from trace_core.spark.store import SQL
from trace_core.spark.wire import SparkColumn, SparkInput, SparkObject, SparkPart
from trace_core.storage.model import Backend, Pin, PinnedPart
from trace_core.storage.read_plan import PartToRead, read_plan
from trace_core.storage.scopes import WHOLE

if TYPE_CHECKING:
    from trace_core.storage.reader import PinnedReader

EXPORT_ROWS = 500_000
EXPORT_BYTES = 64 * 1024 * 1024
"""An exported object ends after so many rows, or bytes once they are encoded."""


class RunInputs:
    def __init__(
        self,
        state: StateDatabase,
        pins: PinResolver,
        objects: ObjectStore,
        reader: Callable[[], PinnedReader],
        address: Callable[[str], str],
    ) -> None:
        """`reader` is made with the first export: it loads Arrow and opens the data database.
        `address` is where a run finds the object with that key."""
        self._state = state
        self._pins = pins
        self._objects = objects
        self._reader = reader
        self._address = address

    def prepare(
        self, payload: Mapping[str, Any], exports: str, before: int = 0
    ) -> tuple[SparkInput, ...]:
        """Each input at its pin, cut down to what the task may read; exports go under `exports`.

        Of inputs that do not trigger, `before` more cursors ahead of the task's range.
        """
        found = []
        trigger = (payload["trigger"] or {}).get("input_index")
        for index, group in groupby(payload["inputs"], key=lambda each: each["input_index"]):
            inputs = [each for each in group if each["dataset_version"] is not None]
            if not inputs:
                continue
            scope = self._scope(payload, inputs, triggers=trigger == index)
            if trigger != index and scope is not None and scope.range is not None and before:
                start, end = scope.range
                scope = Scope.of_range(max(0, start - before), end)
            parts = self._parts(inputs, scope)
            if parts is None:
                continue
            found.append(self._input(inputs[0], parts, scope, f"{exports}{index}-"))
        return tuple(found)

    def _scope(
        self, payload: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]], *, triggers: bool
    ) -> Scope | None:
        """The task's scope, for inputs that are kept by scopes of its kind; else all of them."""
        scope = scope_of(payload)
        if scope == WHOLE or triggers:
            return None if scope == WHOLE else scope
        start, _ = scope.range or (None, None)
        versions = [UUID(each["dataset_version"]) for each in inputs]
        narrowed = self._state.read(
            SQL["narrowed"],
            {"versions": Uuids(versions), "scope": scope.key, "range_start": start},
        )
        return scope if narrowed else None

    def _parts(
        self, inputs: Sequence[Mapping[str, Any]], scope: Scope | None
    ) -> list[PinnedPart] | None:
        """Those with rows; None for an input that has events only."""
        pins = [
            Pin(
                DatasetUuid(UUID(each["dataset_uuid"])),
                DatasetVersion(UUID(each["dataset_version"])),
                each["commit_number"],
                each["swap"],
            )
            for each in inputs
        ]
        parts = self._pins.resolve(pins, scope=scope)
        if all(part.backend is Backend.CONTROL for part in parts):
            return None
        # A part that nobody wrote to yet, and of which no columns are known, adds no rows.
        known = [part for part in parts if part.columns]
        return known or parts[:1]

    def _input(
        self,
        given: Mapping[str, Any],
        parts: Sequence[PinnedPart],
        scope: Scope | None,
        exports: str,
    ) -> SparkInput:
        columns = tuple(SparkColumn(each.name, each.type) for each in parts[0].columns)
        where = given["filter"]
        if not columns:
            return SparkInput(given["alias"], where=where)
        found: list[SparkPart] = []
        for at, planned in enumerate(read_plan(parts, scope)):
            if planned.part.backend is Backend.S3:
                found += self._of_objects(planned)
            else:
                found.append(self._export(planned, where, f"{exports}{at}-"))
        return SparkInput(given["alias"], columns, tuple(found), where)

    def _of_objects(self, planned: PartToRead) -> list[SparkPart]:
        """Objects by their names; those that are cut by the same column make one part."""
        by_column: dict[str | None, list[SparkObject]] = {}
        named = [each.cursor_column for each in planned.objects if each.cursor_column]
        for each in planned.objects:
            # Appended rows stay together: which one of a key came first is said over all of them.
            column = next(iter(named), None) if planned.first_of_key else each.cursor_column
            by_column.setdefault(column, []).append(
                SparkObject(
                    self._address(each.stored.key), each.number, each.stored.rows, each.keep
                )
            )
        return [
            SparkPart(tuple(objects), column, planned.first_of_key)
            for column, objects in by_column.items()
        ]

    def _export(self, planned: PartToRead, where: str | None, name: str) -> SparkPart:
        """The rows of a table at its pin, as objects: already cut down, and each key once."""
        rows = self._reader().planned(
            planned, where=parse_text(where) if where is not None else None
        )
        found = []
        for number, (count, data) in enumerate(_encoded(rows)):
            key = f"{name}{number:04}.parquet"
            self._objects.create(key, data)
            found.append(SparkObject(self._address(key), planned.part.pin.number, count))
        return SparkPart(tuple(found))


def scope_of(payload: Mapping[str, Any]) -> Scope:
    """What the task is about; everything, when no event made it."""
    trigger = payload["trigger"] or {}
    return Scope(*(trigger.get(name) for name in ("cursor", "partition_key", "start", "end")))


def _encoded(rows: Any) -> Iterator[tuple[int, bytes]]:
    """Parquet objects of bounded size, a few batches in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trace_core.storage.parquet_settings import parquet_settings

    target, writer, count = io.BytesIO(), None, 0
    for batch in rows:
        if not batch.num_rows:
            continue
        if writer is None:
            target, count = io.BytesIO(), 0
            writer = pq.ParquetWriter(target, rows.schema, **parquet_settings(rows.schema))
        writer.write_table(pa.Table.from_batches([batch], rows.schema))
        count += batch.num_rows
        if count >= EXPORT_ROWS or target.tell() >= EXPORT_BYTES:
            writer.close()
            yield count, target.getvalue()
            writer = None
    if writer is not None:
        writer.close()
        yield count, target.getvalue()
