"""The S3 layout: rows as Parquet objects in the folder of an attempt, and a manifest written last.

Nothing is renamed or replaced. What counts is what the manifest lists, and a manifest counts once
it is committed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_core.dag.filters import FIELD
from trace_core.dag.model import Column
from trace_core.kernel.errors import Conflict, Invalid, NotFound
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.storage.errors import ManifestInvalid
from trace_core.storage.manifest import MANIFEST_NAME, parse_manifest, scope_folder
from trace_core.storage.model import Manifest, ManifestIdentity, StoredObject
from trace_core.storage.rows import (
    arrow_schema,
    check_columns,
    check_cursors,
    check_keys,
    conformed,
)
from trace_core.storage.statistics import extremes

ROWS_PER_OBJECT = 500_000
ROWS_PER_GROUP = 65_536
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Differences:
    """Where stored objects and their manifest disagree."""

    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.altered or self.missing or self.extra)

    def __str__(self) -> str:
        named = {"missing": self.missing, "extra": self.extra, "altered": self.altered}
        return "; ".join(f"{word}: {_listed(keys)}" for word, keys in named.items() if keys)


def write_objects(
    store: ObjectStore,
    prefix: str,
    identity: ManifestIdentity,
    columns: Sequence[Column],
    rows: pa.Table | pa.RecordBatchReader,
    *,
    name: str = "rows",
    cursor_column: str | None = None,
    unique_key: Sequence[str] = (),
    rows_per_object: int = ROWS_PER_OBJECT,
) -> Manifest:
    """Write the rows of one scope, then its manifest; the same rows give the same bytes.

    `prefix` is the attempt's staging prefix. Doing it again after a crash goes on where it
    stopped; other rows under the same prefix are a `Conflict`.
    """
    if not FIELD.fullmatch(name):
        raise Invalid("Objects are named with a-z, 0-9 and `_`.", field="name")
    check_columns(columns, unique_key)
    required = [*unique_key, *([cursor_column] if cursor_column else [])]
    folder = scope_folder(prefix, identity.scope)
    written = []
    pieces = _pieces(conformed(rows, columns, required=required), columns, rows_per_object)
    for number, table in enumerate(pieces):
        for batch in table.to_batches():
            check_keys(batch, unique_key)
        if cursor_column:
            check_cursors(table.column(cursor_column), cursor_column, identity.scope)
        data = parquet_bytes(table)
        key = f"{folder}{_object_name(name, identity.scope, number)}"
        _create(store, key, data)
        digest = hashlib.sha256(data).hexdigest()
        minimum, maximum = extremes(table, tuple(columns))
        written.append(StoredObject(key, len(data), table.num_rows, digest, minimum, maximum))
    manifest = Manifest(
        identity.dataset_uuid,
        identity.dataset_version,
        identity.task_id,
        identity.attempt,
        identity.lease_sequence,
        identity.output_index,
        identity.scope,
        tuple(columns),
        tuple(written),
    )
    _create(store, folder + MANIFEST_NAME, manifest.canonical().encode())
    return manifest


def verify_manifest(
    store: ObjectStore, key: str, prefix: str, expected: ManifestIdentity
) -> Manifest:
    """The manifest under that key, if it is the expected one and describes all that lies there.

    Compares names and sizes; `rehash` compares contents.
    """
    folder = scope_folder(prefix, expected.scope)
    if key != folder + MANIFEST_NAME:
        raise ManifestInvalid(
            f"The manifest of this scope is {folder + MANIFEST_NAME!r}, not {key!r}.", field="key"
        )
    try:
        data = store.read(key)
    except NotFound as error:
        raise ManifestInvalid(f"There is no manifest at {key!r}; write it last.") from error
    manifest = parse_manifest(data, prefix)
    for field, wanted in vars(expected).items():
        if getattr(manifest, field) != wanted:
            raise ManifestInvalid(
                f"The manifest's {field} is {getattr(manifest, field)}, expected {wanted}.",
                field=field,
            )
    listed = {each.key: each.bytes for each in manifest.objects}
    found = {each.key: each.size for each in store.list(folder) if each.key != key}
    differences = Differences(
        altered=_sorted(name for name in listed.keys() & found if listed[name] != found[name]),
        missing=_sorted(listed.keys() - found),
        extra=_sorted(found.keys() - listed),
    )
    if differences:
        raise ManifestInvalid(
            f"The objects under {folder!r} are not those of the manifest: {differences}.",
            altered=list(differences.altered[:_NAMES_SHOWN]),
            missing=list(differences.missing[:_NAMES_SHOWN]),
            extra=list(differences.extra[:_NAMES_SHOWN]),
        )
    return manifest


def rehash(store: ObjectStore, manifest: Manifest, *, folder: str | None = None) -> Differences:
    """Read every object again. `folder` is where they lie, for a manifest that lists none."""
    altered, missing = [], []
    for each in manifest.objects:
        try:
            data = store.read(each.key)
        except NotFound:
            missing.append(each.key)
            continue
        if len(data) != each.bytes or hashlib.sha256(data).hexdigest() != each.sha256:
            altered.append(each.key)
    if folder is None and manifest.objects:
        folder = manifest.objects[0].key.rpartition("/")[0] + "/"
    known = {each.key for each in manifest.objects} | {f"{folder}{MANIFEST_NAME}"}
    extra = {each.key for each in store.list(folder)} - known if folder else set()
    return Differences(_sorted(altered), _sorted(missing), _sorted(extra))


def parquet_bytes(table: pa.Table) -> bytes:
    """One Parquet file; nothing in it depends on when, where or from which chunks it was made."""
    target = io.BytesIO()
    pq.write_table(
        table.combine_chunks().replace_schema_metadata(None),
        target,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        version="2.6",
    )
    return target.getvalue()


def _pieces(
    batches: Iterator[pa.RecordBatch], columns: Sequence[Column], size: int
) -> Iterator[pa.Table]:
    """Tables of `size` rows, however the batches were cut; one without rows if there are none."""
    schema, held, count, made = arrow_schema(columns), [], 0, 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= size:
            table = pa.Table.from_batches(held, schema)
            yield table.slice(0, size)
            made += 1
            held, count = table.slice(size).to_batches(), count - size
    if count or not made:
        yield pa.Table.from_batches(held, schema)


def _object_name(name: str, scope: Scope, number: int) -> str:
    bounds = f"_{scope.range[0]}_{scope.range[1]}" if scope.range else ""
    further = f"_part{number:04}" if number else ""
    return f"{name}{bounds}{further}.parquet"


def _create(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        store.create(key, data)
    except Conflict:
        # This attempt was here before and lost its way; it may only have written the same.
        if store.read(key) != data:
            raise


def _sorted(keys: Any) -> tuple[str, ...]:
    return tuple(sorted(keys))


def _listed(keys: tuple[str, ...]) -> str:
    shown = ", ".join(keys[:_NAMES_SHOWN])
    return shown if len(keys) <= _NAMES_SHOWN else f"{shown} and {len(keys) - _NAMES_SHOWN} more"
