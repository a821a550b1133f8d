"""Rows of tasks: what an attempt leaves becomes a commit, once, under a fence taken before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests.manual_clock import ManualClock
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.data import DataDatabase, DataRole
from trace_core.kernel.errors import Fenced, Invalid, Superseded
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids
from trace_core.kernel.scopes import Scope
from trace_core.ports.row_store import Begun, RowsFile
from trace_core.storage.arrow_files import open_rows, write_batches
from trace_core.storage.errors import RowsInvalid
from trace_core.storage.model import Backend, Entry, Pin, PinnedPart
from trace_core.storage.part_wire import part_fields
from trace_core.storage.stored_manifests import parse_manifest
from trace_core.storage.task_rows import TaskRows
from trace_core.storage.versions import VersionTable, VersionTables

COLUMNS = (Column("number", "bigint"), Column("text", "text"))
TEN = Scope.of_range(0, 9)
BODY = {"status": "Completed", "events": []}


class Scene:
    def __init__(self, data: DataDatabase, folder: Path, clock: ManualClock, ids: Ids) -> None:
        self.ids, self.folder = ids, folder
        self.objects = FileObjectStore(folder / "objects")
        self.data = data
        self._writer = DataDatabase(data.dsn, role=DataRole.WRITER)
        self.rows = TaskRows(self.objects, lambda: self._writer, clock)
        self.dataset = DatasetUuid(ids.uuid())
        self.version = DatasetVersion(ids.uuid())
        self.task = ids.uuid()
        self._files = 0

    def close(self) -> None:
        self._writer.close()

    def make_table(self, strategy: str = "replace", key: tuple[str, ...] = ()) -> None:
        VersionTables(self.data).ensure_version(
            VersionTable(self.dataset, self.version, COLUMNS, UpdateStrategy(strategy), key)
        )

    def payload(self, backend: str = "postgres", attempt: int = 1, **changes: Any) -> Any:
        """One attempt of one task, as far as its rows are concerned."""
        return {
            "task_id": str(self.task),
            "attempt": attempt,
            "lease_sequence": attempt,
            "job": {"activation": changes.pop("activation", "reactive")},
            "inputs": [],
            "outputs": [
                {
                    "output_index": 0,
                    "dataset_uuid": str(self.dataset),
                    "dataset_version": str(self.version),
                    "backend": backend,
                    "unique_key": [],
                    "columns": None,
                    "readable": changes.pop("readable", 0),
                    "staging_prefix": f"org/o/staging/{self.task}/{attempt}-{attempt}/0/",
                }
            ],
            **changes,
        }

    def file(self, table: pa.Table, scope: Scope = TEN, **more: Any) -> RowsFile:
        self._files += 1
        path = self.folder / f"{self._files}.arrow"
        write_batches(path, table.schema, table.to_batches())
        return RowsFile(0, scope, path, **more)

    def numbers(self, *numbers: int, **more: Any) -> RowsFile:
        table = pa.table({"number": list(numbers), "text": [str(each) for each in numbers]})
        return self.file(table, **more)

    def stored(self, number: int) -> list[int]:
        """What a pin shows, through an Arrow file as an operator gets it."""
        part = PinnedPart(
            Pin(self.dataset, self.version, number, 1),
            Backend.POSTGRES,
            UpdateStrategy.REPLACE,
            (),
            COLUMNS,
        )
        path = self.folder / "read.arrow"
        path.unlink(missing_ok=True)
        self.rows.fetch([part_fields(part)], path)
        found: list[int] = open_rows(path)["number"].to_pylist()
        return sorted(found)

    def records(self) -> list[tuple[int, int]]:
        rows = self.data.read("SELECT number, attempt FROM trace.records ORDER BY number", {})
        return [(row.number, row.attempt) for row in rows]


@pytest.fixture
def scene(
    data_database: DataDatabase, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[Scene]:
    made = Scene(data_database, tmp_path, manual_clock, ids)
    yield made
    made.close()


# In the S3 layout -------------------------------------------------------------------------------


def test_rows_become_objects_and_a_manifest_under_the_prefix_of_the_attempt(scene: Scene) -> None:
    payload = scene.payload("s3")
    assert scene.rows.begin(payload) == Begun()
    (stored,) = scene.rows.store(payload, Begun(), [scene.numbers(1, 2, 3, name="blocks")], BODY)
    prefix = payload["outputs"][0]["staging_prefix"]
    assert stored.manifest_key == f"{prefix}0-9/manifest.json"
    manifest = parse_manifest(scene.objects.read(stored.manifest_key), prefix)
    assert (manifest.rows, stored.row_count, stored.commit_number) == (3, 3, None)
    assert [each.key.rpartition("/")[2] for each in manifest.objects] == ["blocks_0_9.parquet"]
    assert [(each.name, each.type) for each in manifest.columns] == [
        ("number", "bigint"),
        ("text", "text"),
    ]
    part = PinnedPart(
        Pin(scene.dataset, scene.version, 1, 1), Backend.S3, UpdateStrategy.REPLACE, (), COLUMNS,
        (Entry(1, None, TEN, manifest.objects),),
    )  # fmt: skip
    path = scene.folder / "read.arrow"
    scene.rows.fetch([part_fields(part)], path, columns=["number"], where="number > 1")
    assert open_rows(path).to_pydict() == {"number": [2, 3]}


def test_known_columns_are_kept_and_new_ones_stand_at_the_end(scene: Scene) -> None:
    payload = scene.payload("s3")
    payload["outputs"][0]["columns"] = [{"name": "number", "type": "integer"}]
    table = pa.table({"more": [True], "number": [7]})
    (stored,) = scene.rows.store(payload, Begun(), [scene.file(table)], BODY)
    assert stored.manifest_key is not None
    prefix = payload["outputs"][0]["staging_prefix"]
    manifest = parse_manifest(scene.objects.read(stored.manifest_key), prefix)
    assert [(each.name, each.type) for each in manifest.columns] == [
        ("number", "integer"),
        ("more", "boolean"),
    ]


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (pa.timestamp("us"), "give it a time zone"),
        (pa.list_(pa.int64()), "cast it"),
        (pa.struct([("a", pa.int64())]), "cast it"),
    ],
    ids=str,
)
def test_a_type_that_no_column_has_is_refused_with_a_way_out(
    scene: Scene, kind: pa.DataType, hint: str
) -> None:
    table = pa.table({"odd": pa.nulls(1, kind)})
    with pytest.raises(RowsInvalid, match=f"Column odd .*{hint}"):
        scene.rows.store(scene.payload("s3"), Begun(), [scene.file(table)], BODY)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "integer"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "numeric(20,0)"),
        (pa.decimal128(10, 2), "numeric(10,2)"),
        (pa.decimal256(76, 0), "numeric(76,0)"),
        (pa.dictionary(pa.int32(), pa.string()), "text"),
        (pa.timestamp("ms", "UTC"), "timestamptz"),
        (pa.date32(), "date"),
        (pa.binary(16), "bytea"),
        (pa.float32(), "real"),
    ],
    ids=str,
)
def test_the_types_of_arrow_become_types_of_columns_that_hold_all_their_values(
    scene: Scene, kind: pa.DataType, column: str
) -> None:
    payload = scene.payload("s3")
    table = pa.table({"value": pa.nulls(1, kind)})
    (stored,) = scene.rows.store(payload, Begun(), [scene.file(table)], BODY)
    assert stored.manifest_key is not None
    prefix = payload["outputs"][0]["staging_prefix"]
    manifest = parse_manifest(scene.objects.read(stored.manifest_key), prefix)
    assert [each.type for each in manifest.columns] == [column]


def test_a_file_that_was_not_finished_is_refused(scene: Scene) -> None:
    file = scene.numbers(1, 2)
    file.path.write_bytes(file.path.read_bytes()[:-20])
    with pytest.raises(RowsInvalid, match="no whole Arrow file"):
        scene.rows.store(scene.payload("s3"), Begun(), [file], BODY)


def test_an_input_that_was_never_written_is_empty(scene: Scene) -> None:
    part = PinnedPart(
        Pin(scene.dataset, scene.version, 0, 1), Backend.S3, UpdateStrategy.REPLACE, (), ()
    )
    path = scene.folder / "read.arrow"
    scene.rows.fetch([part_fields(part)], path)
    assert open_rows(path).num_rows == 0


# In Postgres ------------------------------------------------------------------------------------


def test_all_scopes_of_an_attempt_are_one_transaction_with_its_pins_and_its_report(
    scene: Scene,
) -> None:
    scene.make_table()
    source = scene.ids.uuid()
    read = {
        "dataset_uuid": str(source), "dataset_version": str(source), "commit_number": 4, "swap": 2,
    }  # fmt: skip
    payload = scene.payload(inputs=[read, read])
    begun = scene.rows.begin(payload)
    files = [scene.numbers(1, 2), scene.numbers(11, scope=Scope.of_range(10, 19))]
    stored = scene.rows.store(payload, begun, files, BODY)
    assert [(each.commit_number, each.row_count, each.written_by) for each in stored] == [
        (1, 2, (1, 1)),
        (2, 1, (1, 1)),
    ]
    (completion,) = scene.data.read("SELECT * FROM trace.completions", {})
    assert completion.body == BODY
    assert completion.input_pins == [
        {"dataset_uuid": str(source), "dataset_version": str(source), "number": 4, "swap": 2}
    ]
    assert (scene.stored(0), scene.stored(1), scene.stored(2)) == ([], [1, 2], [1, 2, 11])


def test_an_attempt_that_finds_the_record_of_an_earlier_one_gets_it_instead_of_running(
    scene: Scene,
) -> None:
    scene.make_table()
    first = scene.payload()
    written = scene.rows.store(first, scene.rows.begin(first), [scene.numbers(1)], BODY)
    begun = scene.rows.begin(scene.payload(attempt=2))
    assert begun.done is not None
    assert (begun.done.body, list(begun.done.rows)) == (BODY, written)
    assert scene.records() == [(1, 1)]


def test_an_attempt_whose_fence_was_passed_writes_no_more(scene: Scene) -> None:
    scene.make_table()
    first = scene.payload()
    begun = scene.rows.begin(first)
    scene.rows.begin(scene.payload(attempt=2))
    with pytest.raises(Fenced):
        scene.rows.store(first, begun, [scene.numbers(1)], BODY)
    with pytest.raises(Fenced):
        scene.rows.begin(first)
    assert scene.records() == []


def test_rows_made_from_older_inputs_than_those_there_are_superseded(scene: Scene) -> None:
    scene.make_table()
    source = str(scene.ids.uuid())

    def attempt(number: int) -> Any:
        scene.task = scene.ids.uuid()
        read = {"dataset_uuid": source, "dataset_version": source, "commit_number": number}
        return scene.payload(inputs=[read | {"swap": 1}])

    newer = attempt(5)
    scene.rows.store(newer, scene.rows.begin(newer), [scene.numbers(1)], BODY)
    older = attempt(4)
    begun = scene.rows.begin(older)
    with pytest.raises(Superseded):
        scene.rows.store(older, begun, [scene.numbers(2)], BODY)
    assert scene.stored(1) == [1]


def test_a_sources_cursor_moves_with_its_rows_and_begins_where_it_was(scene: Scene) -> None:
    scene.make_table()
    first = scene.payload(activation="source")
    begun = scene.rows.begin(first)
    assert (begun.keeps_cursor, begun.cursor) == (True, None)
    scene.rows.store(first, begun, [scene.numbers(1)], BODY, {"next": 2})
    # Reported meanwhile: what is readable has come as far as the commit.
    second = scene.payload(activation="source", attempt=2, readable=1)
    begun = scene.rows.begin(second)
    assert (begun.done, begun.cursor) == (None, {"next": 2})
    # A slice without rows moves it too.
    scene.rows.store(second, begun, [], BODY, {"next": 3})
    third = scene.payload(activation="source", attempt=3, readable=1)
    assert scene.rows.begin(third).cursor == {"next": 3}


def test_a_slice_that_was_not_reported_is_reported_by_the_next_one(scene: Scene) -> None:
    scene.make_table()
    first = scene.payload(activation="source")
    written = scene.rows.store(
        first, scene.rows.begin(first), [scene.numbers(1)], BODY, {"next": 2}
    )
    begun = scene.rows.begin(scene.payload(activation="source", attempt=2, readable=0))
    assert begun.done is not None and list(begun.done.rows) == written


def test_outputs_in_two_places_are_refused_before_anything_runs(scene: Scene) -> None:
    payload = scene.payload()
    payload["outputs"].append({**payload["outputs"][0], "output_index": 1, "backend": "s3"})
    with pytest.raises(Invalid, match="kept in one place"):
        scene.rows.begin(payload)
    assert scene.data.read("SELECT * FROM trace.fences", {}) == []


def test_control_outputs_need_no_fence(scene: Scene) -> None:
    assert scene.rows.begin(scene.payload("control")) == Begun()
    assert UUID(str(scene.task))
