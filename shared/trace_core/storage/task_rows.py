"""Rows of tasks: Arrow files of operators become objects and tables, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pyarrow as pa

from trace_core.dag.filter_parser import parse_text
from trace_core.dag.model import Column
from trace_core.database.data import DataDatabase
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.row_store import Begun, Done, RowsFile, StoredRows
from trace_core.storage.arrow_files import open_rows, write_batches
from trace_core.storage.commits import Committed, CursorMove, DataCommit, DataFence, RowsOutput
from trace_core.storage.derived_columns import with_derived
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import Backend, ManifestIdentity, Pin
from trace_core.storage.objects import write_objects
from trace_core.storage.part_wire import parse_part
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.reader import PinnedReader

Payload = Mapping[str, Any]


class TaskRows:
    """`RowStore` over the object store and the data database, which is opened when it is needed."""

    def __init__(
        self, objects: ObjectStore, data: Callable[[], DataDatabase], clock: Clock
    ) -> None:
        self._objects = objects
        self._data = data
        self._clock = clock

    def begin(self, payload: Payload) -> Begun:
        backends = {Backend(each["backend"]) for each in payload["outputs"]}
        if Backend.POSTGRES not in backends:
            return Begun()
        if Backend.S3 in backends:
            # Two commits cannot be made one: a crash between them would leave half a result.
            raise Invalid(
                "The outputs of one job are kept in one place: publish them with the same"
                " `storage`, or make two jobs.",
                field="outputs",
            )
        output, is_source = self._output(), payload["job"]["activation"] == "source"
        task_id = TaskId(UUID(payload["task_id"]))
        fence = output.advance_fence(task_id, payload["attempt"], payload["lease_sequence"])
        found = output.find_records(task_id)
        if found is not None and (not is_source or _is_unreported(found, payload)):
            return Begun(fence, done=Done(found.body, [*_stored(found)]))
        if not is_source:
            return Begun(fence)
        return Begun(fence, output.read_cursor(task_id), keeps_cursor=True)

    def fetch(
        self,
        parts: Sequence[Mapping[str, Any]],
        into: Path,
        *,
        scope: Scope | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> None:
        found = [parse_part(each) for each in parts]
        if not any(part.columns for part in found):
            # Nothing was ever written, and nobody has said what will be.
            write_batches(into, pa.schema([]), ())
            return
        in_postgres = any(part.backend is Backend.POSTGRES for part in found)
        data = self._data() if in_postgres else cast(DataDatabase, None)
        rows = PinnedReader(self._objects, data).relation(
            found,
            scope=scope,
            columns=columns,
            where=parse_text(where) if where is not None else None,
        )
        write_batches(into, rows.schema, rows)

    def store(
        self,
        payload: Payload,
        begun: Begun,
        files: Sequence[RowsFile],
        body: Mapping[str, Any],
        cursor: Any = None,
    ) -> list[StoredRows]:
        if begun.fence is None:
            return [self._write_objects(payload, each) for each in files]
        fence = cast(DataFence, begun.fence)
        outputs = {each["output_index"]: each for each in payload["outputs"]}
        committed = self._output().commit(
            DataCommit(
                fence,
                tuple(
                    RowsOutput(
                        each.output_index,
                        DatasetUuid(UUID(outputs[each.output_index]["dataset_uuid"])),
                        DatasetVersion(UUID(outputs[each.output_index]["dataset_version"])),
                        each.scope,
                        open_rows(each.path),
                        each.cursor_column,
                    )
                    for each in files
                ),
                _pins(payload),
                body,
                CursorMove(begun.cursor, cursor) if begun.keeps_cursor else None,
            )
        )
        return [*_stored(committed)]

    def _output(self) -> PostgresOutput:
        return PostgresOutput(self._data(), self._clock)

    def _write_objects(self, payload: Payload, file: RowsFile) -> StoredRows:
        output = next(
            each for each in payload["outputs"] if each["output_index"] == file.output_index
        )
        rows = open_rows(file.path)
        known = [Column(each["name"], each["type"]) for each in output["columns"] or ()]
        manifest = write_objects(
            self._objects,
            output["staging_prefix"],
            ManifestIdentity(
                DatasetUuid(UUID(output["dataset_uuid"])),
                DatasetVersion(UUID(output["dataset_version"])),
                TaskId(UUID(payload["task_id"])),
                payload["attempt"],
                payload["lease_sequence"],
                file.output_index,
                file.scope,
            ),
            with_derived(known, rows.schema),
            rows,
            name=file.name,
            cursor_column=file.cursor_column,
            unique_key=output["unique_key"],
        )
        key = scope_folder(output["staging_prefix"], file.scope) + MANIFEST_NAME
        return StoredRows(file.output_index, file.scope, manifest.rows, manifest_key=key)


def _is_unreported(found: Committed, payload: Payload) -> bool:
    """The last slice committed, and the state database had not heard of it when this one began."""
    readable = {each["dataset_version"]: each["readable"] for each in payload["outputs"]}
    return any(each.number > readable[str(each.dataset_version)] for each in found.commits)


def _stored(committed: Committed) -> list[StoredRows]:
    written_by = (committed.fence.attempt, committed.fence.lease_sequence)
    return [
        StoredRows(
            each.output_index,
            each.scope,
            each.row_count,
            commit_number=each.number,
            replaces=each.replaces,
            written_by=written_by,
        )
        for each in committed.commits
    ]


def _pins(payload: Payload) -> tuple[Pin, ...]:
    pins = [
        Pin(
            DatasetUuid(UUID(each["dataset_uuid"])),
            DatasetVersion(UUID(each["dataset_version"])),
            each["commit_number"],
            each["swap"],
        )
        for each in payload["inputs"]
        if each["dataset_version"] is not None
    ]
    return tuple(dict.fromkeys(pins))
