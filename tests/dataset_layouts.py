"""A dataset version in each layout, behind one face: commit rows, read them at a pin."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from tests.manual_clock import ManualClock
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.data import DataDatabase
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.commits import Committed, DataCommit, RowsOutput
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import (
    Backend,
    Cut,
    Entry,
    ManifestIdentity,
    Pin,
    PinnedPart,
    Taken,
    taken_by,
)
from trace_core.storage.objects import verify_manifest, write_objects
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.reader import PinnedReader
from trace_core.storage.rows import arrow_schema
from trace_core.storage.versions import VersionTable, VersionTables

BLOCKS = (
    Column("number", "bigint"),
    Column("hash", "text"),
    Column("amount", "numeric(78)"),
    Column("payload", "jsonb"),
)
REPLACE, APPEND = UpdateStrategy.REPLACE, UpdateStrategy.APPEND
Rows = Sequence[Mapping[str, Any]]


def block(number: int, hash_: str, amount: int = 0, payload: Any = None) -> dict[str, Any]:
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return {"number": number, "hash": hash_, "amount": str(amount), "payload": text}


def table_of(rows: Rows, columns: Sequence[Column]) -> pa.Table:
    """The rows as a writer would give them."""
    arrays = {}
    for each in arrow_schema(columns):
        values = [row[each.name] for row in rows]
        arrays[each.name] = pa.array(values, each.type)
    return pa.table(arrays, schema=arrow_schema(columns))


def row_hashes(table: pa.Table | Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows without their order, repeats counted."""
    rows = table.to_pylist() if isinstance(table, pa.Table) else table
    return Counter(repr(sorted(row.items())) for row in rows)


@dataclass
class Definition:
    """What is common to the layouts of a version."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    columns: tuple[Column, ...] = BLOCKS
    update_strategy: UpdateStrategy = REPLACE
    unique_key: tuple[str, ...] = ()
    cursor_column: str | None = None

    @property
    def table(self) -> VersionTable:
        return VersionTable(
            self.dataset_uuid,
            self.dataset_version,
            self.columns,
            self.update_strategy,
            self.unique_key,
        )

    def part(self, number: int, backend: Backend, entries: Sequence[Entry] = ()) -> PinnedPart:
        return PinnedPart(
            Pin(self.dataset_uuid, self.dataset_version, number, 1),
            backend,
            self.update_strategy,
            self.unique_key,
            self.columns,
            tuple(entries),
            self.cursor_column,
        )


class Layout(Protocol):
    definition: Definition
    reader: PinnedReader
    cuts: bool
    """A commit may replace some rows of an earlier one, if they have cursors of their own."""

    def commit(self, scope: Scope, rows: Rows | pa.Table) -> int: ...

    def part(self, number: int) -> PinnedPart: ...


@dataclass
class PostgresLayout:
    definition: Definition
    output: PostgresOutput
    reader: PinnedReader
    ids: Ids
    cuts: bool = True

    def commit(self, scope: Scope, rows: Rows | pa.Table) -> int:
        return self.write(scope, rows).commits[0].number

    def write(
        self,
        scope: Scope,
        rows: Rows | pa.Table,
        *,
        task_id: TaskId | None = None,
        attempt: int = 1,
        pins: Sequence[Pin] = (),
    ) -> Committed:
        """One task with one output, from its fence to its commit."""
        fence = self.output.advance_fence(task_id or TaskId(self.ids.uuid()), attempt, attempt)
        found = self.rows_output(scope, rows)
        return self.output.commit(DataCommit(fence, (found,), tuple(pins), {"status": "Completed"}))

    def rows_output(self, scope: Scope, rows: Rows | pa.Table, index: int = 0) -> RowsOutput:
        return RowsOutput(
            index,
            self.definition.dataset_uuid,
            self.definition.dataset_version,
            scope,
            rows if isinstance(rows, pa.Table) else table_of(rows, self.definition.columns),
            self.definition.cursor_column,
        )

    def part(self, number: int) -> PinnedPart:
        return self.definition.part(number, Backend.POSTGRES)


@dataclass
class ObjectsLayout:
    """The registration of manifests in the state database is played by a list."""

    definition: Definition
    store: ObjectStore
    reader: PinnedReader
    ids: Ids
    rows_per_object: int = 1000
    entries: list[Entry] = field(default_factory=list)
    cuts: bool = True

    def commit(self, scope: Scope, rows: Rows | pa.Table) -> int:
        one = self.definition
        identity = ManifestIdentity(
            one.dataset_uuid, one.dataset_version, TaskId(self.ids.uuid()), 1, 1, 0, scope
        )
        live = [entry for entry in self.entries if entry.replaced_at is None]
        taken = taken_by(live if one.update_strategy is REPLACE else [], scope)
        prefix = f"version/{one.dataset_version}/staging/{identity.task_id}/1-1/0/"
        write_objects(
            self.store,
            prefix,
            identity,
            one.columns,
            rows if isinstance(rows, pa.Table) else table_of(rows, one.columns),
            name="blocks",
            cursor_column=one.cursor_column,
            unique_key=one.unique_key,
            rows_per_object=self.rows_per_object,
        )
        key = scope_folder(prefix, scope) + MANIFEST_NAME
        manifest = verify_manifest(self.store, key, prefix, identity)
        number = len({entry.number for entry in self.entries}) + 1
        self.entries = [self._after(entry, taken, number, scope) for entry in self.entries]
        self.entries.append(Entry(number, None, scope, manifest.objects, manifest.cursor_column))
        return number

    @staticmethod
    def _after(entry: Entry, taken: Taken[Entry], number: int, scope: Scope) -> Entry:
        if entry in taken.closed:
            return replace(entry, replaced_at=number)
        if entry in taken.cut and scope.range is not None:
            return replace(entry, cuts=(*entry.cuts, Cut(number, *scope.range)))
        return entry

    def part(self, number: int) -> PinnedPart:
        return self.definition.part(number, Backend.S3, self.entries)


class Layouts:
    """Makes versions of one layout: of Postgres, or of the objects of a store."""

    def __init__(
        self, store: ObjectStore, data: DataDatabase, clock: ManualClock, ids: Ids, backend: Backend
    ) -> None:
        self.store, self.data, self.clock, self.ids, self.backend = store, data, clock, ids, backend
        self.reader = PinnedReader(store, data, batch_rows=100)

    def make(self, **changes: Any) -> Layout:
        one = Definition(DatasetUuid(self.ids.uuid()), DatasetVersion(self.ids.uuid()), **changes)
        if self.backend is Backend.S3:
            return ObjectsLayout(one, self.store, self.reader, self.ids)
        VersionTables(self.data).ensure_version(one.table)
        output = PostgresOutput(self.data, self.clock)
        return PostgresLayout(one, output, self.reader, self.ids)
