"""Reading a manifest that a task wrote: nothing in it is taken on trust."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trace_core.dag.column_types import is_column_type
from trace_core.dag.filters import FIELD
from trace_core.dag.model import Column
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import PARTITION_KEY, Scope
from trace_core.ports.object_store import check_key, is_text
from trace_core.storage.errors import ManifestInvalid
from trace_core.storage.model import MANIFEST_FORMAT, Manifest, StoredObject
from trace_core.storage.scopes import folder_name

MANIFEST_NAME = "manifest.json"
MANIFEST_BYTES_MAX = 16 * 1024 * 1024
_PROBLEMS_MAX = 5
_BIGINT_MAX = 2**63 - 1

Count = Annotated[int, Field(ge=0, le=_BIGINT_MAX)]
Bound = Annotated[int, Field(ge=-_BIGINT_MAX, le=_BIGINT_MAX)]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WireScope(_Wire):
    cursor: Bound | None = None
    partition_key: Annotated[str, Field(pattern=rf"^{PARTITION_KEY.pattern}$")] | None = None
    start: Bound | None = None
    end: Bound | None = None


class _WireColumn(_Wire):
    name: str
    type: str


class _WireObject(_Wire):
    key: str
    bytes: Count
    rows: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    minimum: dict[str, int | str]
    maximum: dict[str, int | str]


class _WireManifest(_Wire):
    format: int
    dataset_uuid: str
    dataset_version: str
    task_id: str
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)]
    lease_sequence: Annotated[int, Field(ge=1, le=2**31 - 1)]
    output_index: Annotated[int, Field(ge=0, le=2**31 - 1)]
    scope: _WireScope
    columns: list[_WireColumn]
    objects: list[_WireObject]
    cursor_column: str | None = None


def scope_folder(prefix: str, scope: Scope) -> str:
    """Where the objects and the manifest of one scope lie, under the attempt's staging prefix."""
    return f"{prefix}{folder_name(scope)}/"


def parse_manifest(data: bytes, prefix: str) -> Manifest:
    """The manifest of that JSON; every object must lie in its scope's folder under the prefix."""
    wire = _wire(data)
    if wire.format != MANIFEST_FORMAT:
        raise ManifestInvalid(
            f"The manifest has format {wire.format}; this release reads {MANIFEST_FORMAT}.",
            field="format",
        )
    scope = _scope(wire.scope)
    folder = scope_folder(prefix, scope)
    columns = _columns(wire.columns)
    names = {column.name for column in columns}
    objects = tuple(_object(each, folder, names, at) for at, each in enumerate(wire.objects))
    _refuse_repeats("objects", [each.key for each in objects])
    return Manifest(
        DatasetUuid(_uuid(wire.dataset_uuid, "dataset_uuid")),
        DatasetVersion(_uuid(wire.dataset_version, "dataset_version")),
        TaskId(_uuid(wire.task_id, "task_id")),
        wire.attempt,
        wire.lease_sequence,
        wire.output_index,
        scope,
        columns,
        objects,
        _cursor_column(wire.cursor_column, scope, columns, objects),
    )


def _wire(data: bytes) -> _WireManifest:
    if len(data) > MANIFEST_BYTES_MAX:
        raise ManifestInvalid(
            f"The manifest has more than {MANIFEST_BYTES_MAX} bytes; write fewer objects."
        )
    try:
        fields = json.loads(data, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ManifestInvalid(f"The manifest is not JSON: {error}.") from error
    try:
        return _WireManifest.model_validate(fields)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'manifest'}: {each['msg']}"
            for each in error.errors(include_url=False)[:_PROBLEMS_MAX]
        ]
        raise ManifestInvalid(
            f"The manifest does not have the expected form: {'; '.join(problems)}."
        ) from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _scope(wire: _WireScope) -> Scope:
    scope = Scope(wire.cursor, wire.partition_key, wire.start, wire.end)
    if (wire.start is None) != (wire.end is None):
        raise ManifestInvalid("A range has a start and an end.", field="scope")
    if wire.start is not None and wire.end is not None and wire.start > wire.end:
        raise ManifestInvalid("A range ends before it starts.", field="scope")
    if wire.cursor is not None and (wire.partition_key is not None or wire.start is not None):
        raise ManifestInvalid("A scope is a cursor or a partition, not both.", field="scope")
    if wire.start is not None and wire.partition_key is None:
        raise ManifestInvalid("A range has a partition_key.", field="scope")
    return scope


def _columns(wire: list[_WireColumn]) -> tuple[Column, ...]:
    for at, each in enumerate(wire):
        if not FIELD.fullmatch(each.name):
            raise ManifestInvalid(
                f"{each.name!r} is no name of a column: use a-z, 0-9 and `_`.",
                field=f"columns.{at}.name",
            )
        if not is_column_type(each.type):
            raise ManifestInvalid(
                f"{each.type!r} is no type of a column.", field=f"columns.{at}.type"
            )
    _refuse_repeats("columns", [each.name for each in wire])
    return tuple(Column(each.name, each.type) for each in wire)


def _cursor_column(
    name: str | None,
    scope: Scope,
    columns: tuple[Column, ...],
    objects: tuple[StoredObject, ...],
) -> str | None:
    """Rows of a commit can be told apart by it, so it must place each of them in the scope."""
    if name is None:
        return None
    if not any(Column(name, kind) in columns for kind in ("bigint", "integer", "smallint")):
        raise ManifestInvalid(
            f"The cursor column {name!r} is no column of whole numbers.", field="cursor_column"
        )
    if scope.partition_key is not None and scope.range is None:
        raise ManifestInvalid(
            "Rows with cursors of their own need a scope with a range, or all of the dataset.",
            field="cursor_column",
        )
    for each in objects:
        least, greatest = each.minimum.get(name), each.maximum.get(name)
        if scope.range is None or not isinstance(least, int) or not isinstance(greatest, int):
            continue
        if least < scope.range[0] or greatest > scope.range[1]:
            raise ManifestInvalid(
                f"{each.key!r} has {name} from {least} to {greatest}, outside of its scope.",
                field="cursor_column",
            )
    return name


def _object(wire: _WireObject, folder: str, columns: set[str], at: int) -> StoredObject:
    field = f"objects.{at}"
    try:
        check_key(wire.key)
    except Invalid as error:
        raise ManifestInvalid(f"{error.message} {wire.key!r}", field=f"{field}.key") from error
    if not wire.key.startswith(folder) or wire.key == folder + MANIFEST_NAME:
        raise ManifestInvalid(
            f"{wire.key!r} is not an object under {folder!r}; write only there.",
            field=f"{field}.key",
        )
    unknown = (set(wire.minimum) | set(wire.maximum)) - columns
    if unknown or set(wire.minimum) != set(wire.maximum):
        raise ManifestInvalid(
            "minimum and maximum name the same columns, all of them listed.", field=field
        )
    texts = [*wire.minimum.values(), *wire.maximum.values()]
    if not all(is_text(each) for each in texts if isinstance(each, str)):
        raise ManifestInvalid("A minimum or maximum is no text in UTF-8.", field=field)
    return StoredObject(
        wire.key, wire.bytes, wire.rows, wire.sha256, dict(wire.minimum), dict(wire.maximum)
    )


def _uuid(text: str, field: str) -> UUID:
    try:
        found = UUID(text)
    except ValueError as error:
        raise ManifestInvalid(f"{text!r} is no UUID.", field=field) from error
    if str(found) != text:
        raise ManifestInvalid(f"Write the UUID as {found}.", field=field)
    return found


def _refuse_repeats(field: str, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ManifestInvalid(f"{twice[0]!r} is listed twice.", field=field)
