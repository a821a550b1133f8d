"""What a run left becomes what its attempt reports: copied, loaded, or refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from trace_core.dag.column_types import is_column_type
from trace_core.dag.model import Column
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.ports.object_store import ObjectStore, check_key
from trace_core.ports.row_store import Begun, RowsFile, RowStore, StoredRows
from trace_core.spark.model import SparkRun
from trace_core.spark.wire import SparkResult, SparkWritten
from trace_core.storage.model import Backend, ManifestIdentity
from trace_core.tasks.model import table_location


class ResultInvalid(Invalid):
    """The result of a run does not have the expected form, or lists what is not its own."""

    code = "ResultInvalid"


class RunOutputs:
    def __init__(self, objects: ObjectStore, rows: Callable[[], RowStore]) -> None:
        """`rows` is made with the first rows: it loads Arrow."""
        self._objects = objects
        self._rows = rows

    def report(
        self, run: SparkRun, payload: Mapping[str, Any], result: SparkResult
    ) -> dict[str, Any]:
        """A completion without its fence. Raises `Superseded`, `StaleAttempt`, and `Rejected`."""
        outputs = {each["output_index"]: each for each in payload["outputs"]}
        for written in result.written:
            if _backend(outputs, written.output_index) is Backend.CONTROL:
                raise ResultInvalid(
                    f"Output {written.output_index} keeps no rows: give its operator a `storage`,"
                    " or emit."
                )
            self._check(run, written)
        body: dict[str, Any] = {
            "status": "Completed",
            "events": [
                {**_dataset(outputs, each.output_index), **each.scope.fields()}
                for each in result.events
            ],
        }
        for each in result.events:
            if _backend(outputs, each.output_index) is not Backend.CONTROL:
                raise ResultInvalid(
                    f"Output {each.output_index} has rows, and is announced when they are"
                    " committed."
                )
        if any(_backend(outputs, index) is Backend.POSTGRES for index in outputs):
            return self._load(run, payload, outputs, result.written, body)
        stored = [self._adopt(run, payload, outputs[each.output_index], each)
                  for each in result.written]  # fmt: skip
        return {**body, "outputs": [_fields(outputs, each) for each in stored]}

    def _check(self, run: SparkRun, written: SparkWritten) -> None:
        """Of its own folder, and nothing else."""
        if not written.columns:
            raise ResultInvalid("A scope is written with its columns.", field="columns")
        for column in written.columns:
            if not is_column_type(column.type):
                raise ResultInvalid(f"{column.type!r} is no type of a column.", field=column.name)
        for path in written.objects:
            try:
                check_key(f"{run.folder.output(written.output_index)}{path}")
            except Invalid as error:
                raise ResultInvalid(
                    f"{path!r} is no object of output {written.output_index}.", field="objects"
                ) from error

    def _sources(self, run: SparkRun, written: SparkWritten) -> list[str]:
        folder = run.folder.output(written.output_index)
        keys = [f"{folder}{each}" for each in written.objects]
        for key in keys:
            try:
                self._objects.head(key)
            except NotFound as error:
                raise ResultInvalid(f"The result lists {key}, which is not there.") from error
        return keys

    def _adopt(
        self,
        run: SparkRun,
        payload: Mapping[str, Any],
        output: Mapping[str, Any],
        written: SparkWritten,
    ) -> StoredRows:
        from trace_core.storage.adopted import adopt_objects
        from trace_core.storage.manifest import MANIFEST_NAME, scope_folder

        manifest = adopt_objects(
            self._objects,
            self._sources(run, written),
            output["staging_prefix"],
            ManifestIdentity(
                DatasetUuid(UUID(output["dataset_uuid"])),
                DatasetVersion(UUID(output["dataset_version"])),
                run.task_id,
                payload["attempt"],
                payload["lease_sequence"],
                written.output_index,
                written.scope,
            ),
            _columns(written),
            name=written.name,
            cursor_column=written.cursor_column,
            unique_key=output["unique_key"],
        )
        key = scope_folder(output["staging_prefix"], written.scope) + MANIFEST_NAME
        return StoredRows(written.output_index, written.scope, manifest.rows, manifest_key=key)

    def _load(
        self,
        run: SparkRun,
        payload: Mapping[str, Any],
        outputs: Mapping[int, Mapping[str, Any]],
        written: Sequence[SparkWritten],
        body: dict[str, Any],
    ) -> dict[str, Any]:
        """Into tables, in one data transaction, past the fence there."""
        rows = self._rows()
        begun: Begun = rows.begin(payload)
        if begun.done is not None:
            # An earlier attempt, or this one before a crash, has committed: that is reported.
            stored: Sequence[StoredRows] = begun.done.rows
            body = dict(begun.done.body)
        else:
            with tempfile.TemporaryDirectory(prefix="trace-spark-") as folder:
                files = [
                    self._fetched(run, each, Path(folder) / f"{at}.arrow")
                    for at, each in enumerate(written)
                ]
                stored = rows.store(payload, begun, files, body)
        return {**body, "outputs": [_fields(outputs, each) for each in stored]}

    def _fetched(self, run: SparkRun, written: SparkWritten, path: Path) -> RowsFile:
        """One scope as the file that rows are loaded from."""
        from trace_core.storage.arrow_files import write_batches
        from trace_core.storage.rows import arrow_schema

        schema = arrow_schema(_columns(written))
        write_batches(path, schema, self._batches(self._sources(run, written), schema))
        return RowsFile(
            written.output_index, written.scope, path, written.cursor_column, written.name
        )

    def _batches(self, keys: Sequence[str], schema: Any) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from trace_core.storage.adopted import bounded_bytes

        for key in keys:
            data = bounded_bytes(self._objects, key)
            try:
                with pq.ParquetFile(pa.BufferReader(data)) as file:
                    for batch in file.iter_batches():
                        yield batch.select(schema.names).cast(schema)
            except (pa.ArrowException, KeyError) as error:
                raise ResultInvalid(f"An object of the output cannot be read: {error}") from error


def _columns(written: SparkWritten) -> list[Column]:
    return [Column(each.name, each.type) for each in written.columns]


def _output(outputs: Mapping[int, Mapping[str, Any]], index: int) -> Mapping[str, Any]:
    if index not in outputs:
        raise ResultInvalid(f"The job has no output {index}.", field="output_index")
    return outputs[index]


def _backend(outputs: Mapping[int, Mapping[str, Any]], index: int) -> Backend:
    return Backend(_output(outputs, index)["backend"])


def _dataset(outputs: Mapping[int, Mapping[str, Any]], index: int) -> dict[str, str]:
    output = _output(outputs, index)
    return {name: output[name] for name in ("dataset_uuid", "dataset_version")}


def _fields(outputs: Mapping[int, Mapping[str, Any]], stored: StoredRows) -> dict[str, Any]:
    """One output as the completion has it."""
    dataset = _dataset(outputs, stored.output_index)
    fields = {
        "output_index": stored.output_index,
        **dataset,
        **stored.scope.fields(),
        "row_count": stored.row_count,
    }
    if stored.manifest_key is not None:
        return {**fields, "location": stored.manifest_key}
    attempt, lease_sequence = stored.written_by or (0, 0)
    return {
        **fields,
        "location": table_location(UUID(dataset["dataset_uuid"])),
        "commit_number": stored.commit_number,
        "replaces": stored.replaces,
        "written_by": {"attempt": attempt, "lease_sequence": lease_sequence},
    }
