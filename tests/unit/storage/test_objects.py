"""Objects and manifests: the same rows give the same bytes, and nothing is taken on trust."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.dataset_layouts import BLOCKS, block, row_hashes, table_of
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.dag.model import Column
from trace_core.kernel.errors import Conflict
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.storage.errors import Damaged, ManifestInvalid
from trace_core.storage.manifest import parse_manifest
from trace_core.storage.model import Manifest, ManifestIdentity, canonical_json
from trace_core.storage.object_rows import object_rows
from trace_core.storage.objects import (
    Differences,
    parquet_bytes,
    rehash,
    verify_manifest,
    write_objects,
)

PREFIX = "org/o/dataset/d/version/v/staging/t/1-1/0/"
FOLDER = PREFIX + "0-999/"
KEY = FOLDER + "manifest.json"
IDENTITY = ManifestIdentity(
    DatasetUuid(UUID(int=1)),
    DatasetVersion(UUID(int=2)),
    TaskId(UUID(int=3)),
    1,
    1,
    0,
    Scope.of_range(0, 999),
)
ROWS = [block(n, f"{n:04}", n * 10**70) for n in range(1000)]


@pytest.fixture
def store(tmp_path: Path) -> FileObjectStore:
    return FileObjectStore(tmp_path / "objects")


def write(store: FileObjectStore, rows: Any = None, **changes: Any) -> Manifest:
    given = table_of(ROWS, BLOCKS) if rows is None else rows
    settings = {"name": "blocks", "rows_per_object": 400, **changes}
    return write_objects(store, PREFIX, IDENTITY, BLOCKS, given, **settings)


def test_objects_carry_their_range_and_what_is_in_them(store: FileObjectStore) -> None:
    manifest = write(store)
    assert [each.key.removeprefix(FOLDER) for each in manifest.objects] == [
        "blocks_0_999.parquet",
        "blocks_0_999_part0001.parquet",
        "blocks_0_999_part0002.parquet",
    ]
    assert [each.rows for each in manifest.objects] == [400, 400, 200]
    assert manifest.rows == 1000
    second = manifest.objects[1]
    assert (second.minimum["number"], second.maximum["number"]) == (400, 799)
    assert (second.minimum["hash"], second.maximum["hash"]) == ("0400", "0799")
    assert second.maximum["amount"] == str(799 * 10**70)
    assert "payload" not in second.minimum
    found = [
        row
        for each in manifest.objects
        for batch in object_rows(store, each, BLOCKS, 64)
        for row in batch.to_pylist()
    ]
    assert row_hashes(found) == row_hashes(ROWS)


def test_the_same_rows_give_the_same_bytes_however_they_come(
    store: FileObjectStore, tmp_path: Path
) -> None:
    expected = write(store)
    rng = random.Random(7)  # noqa: S311
    for attempt in range(5):
        table, batches, at = table_of(ROWS, BLOCKS), [], 0
        while at < table.num_rows:
            size = rng.randint(1, 300)
            batches += table.slice(at, size).to_batches()
            at += size
        if attempt % 2:
            rows = pa.RecordBatchReader.from_batches(table.schema, batches)
        else:
            rows = pa.Table.from_batches(batches).replace_schema_metadata({"made": f"{attempt}"})
            column = rows.column("hash").cast(pa.large_string()).dictionary_encode()
            rows = rows.set_column(1, "hash", column)
        other = FileObjectStore(tmp_path / f"other{attempt}")
        assert write(other, rows) == expected
        assert write(other).digest == expected.digest
        for each in expected.objects:
            assert other.read(each.key) == store.read(each.key)


def test_writing_again_is_harmless_and_writing_others_is_a_conflict(
    store: FileObjectStore,
) -> None:
    first = write(store)
    assert write(store) == first
    with pytest.raises(Conflict):
        write(store, table_of(ROWS[1:], BLOCKS))
    assert not rehash(store, first)


def test_a_crash_before_the_manifest_is_gone_over_again(store: FileObjectStore) -> None:
    first = write(store)
    store.delete(KEY)
    store.delete(first.objects[2].key)
    with pytest.raises(ManifestInvalid, match="write it last"):
        verify_manifest(store, KEY, PREFIX, IDENTITY)
    assert write(store) == first
    assert verify_manifest(store, KEY, PREFIX, IDENTITY) == first


def test_a_scope_without_rows_has_an_object_all_the_same(store: FileObjectStore) -> None:
    manifest = write(store, table_of([], BLOCKS))
    assert [each.rows for each in manifest.objects] == [0]
    assert manifest.objects[0].minimum == {}
    assert verify_manifest(store, KEY, PREFIX, IDENTITY) == manifest


def test_a_written_manifest_is_verified_and_parses_to_itself(store: FileObjectStore) -> None:
    manifest = write(store)
    assert verify_manifest(store, KEY, PREFIX, IDENTITY) == manifest
    assert store.read(KEY).decode() == manifest.canonical()
    assert parse_manifest(manifest.canonical().encode(), PREFIX).digest == manifest.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": TaskId(UUID(int=9))},
        {"attempt": 2},
        {"lease_sequence": 2},
        {"output_index": 1},
        {"dataset_version": DatasetVersion(UUID(int=9))},
    ],
)
def test_a_manifest_of_somebody_else_is_refused_by_field(
    store: FileObjectStore, changes: dict[str, Any]
) -> None:
    write(store)
    (field,) = changes
    with pytest.raises(ManifestInvalid, match=field) as refused:
        verify_manifest(store, KEY, PREFIX, replace(IDENTITY, **changes))
    assert refused.value.fields["field"] == field


def test_a_manifest_elsewhere_is_refused(store: FileObjectStore) -> None:
    write(store)
    for key in (PREFIX + "manifest.json", FOLDER + "other.json", "elsewhere/manifest.json"):
        with pytest.raises(ManifestInvalid):
            verify_manifest(store, key, PREFIX, IDENTITY)
    with pytest.raises(ManifestInvalid):
        verify_manifest(store, KEY, PREFIX, replace(IDENTITY, scope=Scope(cursor=5)))


def test_missing_extra_and_altered_objects_are_named(store: FileObjectStore) -> None:
    manifest = write(store)
    first, second, third = (each.key for each in manifest.objects)
    store.delete(first)
    store.replace(second, b"short")
    store.create(FOLDER + "deep/stray.parquet", b"x")
    # Another scope's folder is none of its business.
    store.create(PREFIX + "1000-1999/blocks.parquet", b"x")
    with pytest.raises(ManifestInvalid) as refused:
        verify_manifest(store, KEY, PREFIX, IDENTITY)
    assert refused.value.fields["missing"] == [first]
    assert refused.value.fields["altered"] == [second]
    assert refused.value.fields["extra"] == [FOLDER + "deep/stray.parquet"]
    assert first in refused.value.message

    data = bytearray(store.read(third))
    data[len(data) // 2] ^= 1
    store.replace(third, bytes(data))
    assert rehash(store, manifest) == Differences(
        altered=(second, third), missing=(first,), extra=(FOLDER + "deep/stray.parquet",)
    )


def test_a_reader_notices_what_was_altered(store: FileObjectStore) -> None:
    manifest = write(store)
    stored = manifest.objects[0]
    data = bytearray(store.read(stored.key))
    data[100] ^= 1
    store.replace(stored.key, bytes(data))
    with pytest.raises(Damaged, match="differ") as damaged:
        list(object_rows(store, stored, BLOCKS, 64))
    assert damaged.value.fields["reason"] == "it has other contents"
    store.delete(stored.key)
    with pytest.raises(Damaged):
        list(object_rows(store, stored, BLOCKS, 64))


def test_large_objects_are_read_in_ranges(
    store: FileObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_core.storage.object_rows.WHOLE_BYTES_MAX", 10)
    manifest = write(store)
    stored = manifest.objects[0]
    found = [row for b in object_rows(store, stored, BLOCKS, 64) for row in b.to_pylist()]
    assert row_hashes(found) == row_hashes(ROWS[:400])
    store.replace(stored.key, store.read(stored.key) + b"x")
    with pytest.raises(Damaged):
        list(object_rows(store, stored, BLOCKS, 64))


def test_an_object_says_nothing_of_the_greatest_float_which_may_be_nan() -> None:
    rows = pa.table(
        {"n": [1, 2], "ratio": [1.0, float("nan")], "rough": pa.array([1, 2], pa.float32())}
    )
    with pq.ParquetFile(pa.BufferReader(parquet_bytes(rows))) as file:
        group = file.metadata.row_group(0)
        said = [group.column(at).is_stats_set for at in range(3)]
    assert said == [True, False, False]


def test_an_object_of_before_a_column_was_added_gives_null(store: FileObjectStore) -> None:
    stored = write(store).objects[0]
    wider = (*BLOCKS, Column("note", "text"), Column("at", "timestamptz"))
    rows = [row for b in object_rows(store, stored, wider, 64) for row in b.to_pylist()]
    assert row_hashes(rows) == row_hashes({**row, "note": None, "at": None} for row in ROWS[:400])
    only = [row for b in object_rows(store, stored, wider[-1:], 64) for row in b.to_pylist()]
    assert only == [{"at": None}] * 400
    # A column of which it is known that it was there is lost, and not NULL.
    said = {**stored.minimum, "note": "a"}
    with pytest.raises(Damaged, match="differ"):
        list(object_rows(store, replace(stored, minimum=said), wider, 64))


def _object(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: change(fields["objects"][0])


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "unknown field": (lambda f: f.update(more=1), "more"),
    "missing field": (lambda f: f.pop("task_id"), "task_id"),
    "unknown field of an object": (_object(lambda o: o.update(etag="x")), "objects.0.etag"),
    "negative size": (_object(lambda o: o.update(bytes=-1)), "objects.0.bytes"),
    "negative rows": (_object(lambda o: o.update(rows=-1)), "objects.0.rows"),
    "text for a number": (_object(lambda o: o.update(bytes="5")), "objects.0.bytes"),
    "true for a number": (_object(lambda o: o.update(rows=True)), "objects.0.rows"),
    "fraction": (_object(lambda o: o.update(rows=1.5)), "objects.0.rows"),
    "no hash": (_object(lambda o: o.update(sha256="F" * 64)), "objects.0.sha256"),
    "hash with a line break": (_object(lambda o: o.update(sha256="f" * 64 + "\n")), "sha256"),
    "outside the prefix": (_object(lambda o: o.update(key="other/x.parquet")), "objects.0.key"),
    "another scope": (_object(lambda o: o.update(key=PREFIX + "1/x.parquet")), "objects.0.key"),
    "dots": (_object(lambda o: o.update(key=FOLDER + "../x.parquet")), "objects.0.key"),
    "empty part": (_object(lambda o: o.update(key=FOLDER + "/x.parquet")), "objects.0.key"),
    "the manifest itself": (_object(lambda o: o.update(key=KEY)), "objects.0.key"),
    "strange statistic": (_object(lambda o: o["minimum"].update(other=1)), "objects.0"),
    "half a statistic": (_object(lambda o: o["minimum"].pop("number")), "objects.0"),
    "twice": (lambda f: f["objects"].append(f["objects"][0]), "listed twice"),
    "column twice": (lambda f: f["columns"].append(f["columns"][0]), "listed twice"),
    "no column name": (lambda f: f["columns"][0].update(name="A"), "columns.0.name"),
    "no type": (lambda f: f["columns"][0].update(type="money"), "columns.0.type"),
    "other format": (lambda f: f.update(format=2), "format"),
    "attempt zero": (lambda f: f.update(attempt=0), "attempt"),
    "no uuid": (lambda f: f.update(task_id="x"), "task_id"),
    "uuid in capitals": (lambda f: f.update(task_id=str(UUID(int=10)).upper()), "task_id"),
    "half a range": (lambda f: f["scope"].pop("end"), "scope"),
    "range backwards": (lambda f: f["scope"].update(start=1000), "scope"),
    "range without a name": (lambda f: f["scope"].pop("partition_key"), "scope"),
    "cursor and partition": (lambda f: f["scope"].update(cursor=1), "scope"),
    "scope as a path": (lambda f: f["scope"].update(partition_key="a/../b"), "partition_key"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_manifest_of_another_form_is_refused_with_its_place(
    store: FileObjectStore, name: str
) -> None:
    change, place = BAD[name]
    fields = write(store).fields()
    change(fields)
    with pytest.raises(ManifestInvalid) as refused:
        parse_manifest(canonical_json(fields).encode(), PREFIX)
    assert place in f"{refused.value.message} {refused.value.fields}"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_manifest_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        parse_manifest(data, PREFIX)


def test_a_statistic_that_is_no_text_is_refused(store: FileObjectStore) -> None:
    fields = json.loads(write(store).canonical())
    fields["objects"][0]["minimum"]["hash"] = "\ud800"
    with pytest.raises(ManifestInvalid, match="UTF-8"):
        parse_manifest(json.dumps(fields).encode(), PREFIX)


def test_a_folder_named_by_dots_is_refused(store: FileObjectStore) -> None:
    fields = json.loads(write(store).canonical())
    fields["scope"] = {"partition_key": ".."}
    fields["objects"][0]["key"] = PREFIX + "../x.parquet"
    with pytest.raises(ManifestInvalid):
        parse_manifest(canonical_json(fields).encode(), PREFIX)
