"""What an attempt asks of the data database, and what it gets: values, no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Pin, canonical_json


@dataclass(frozen=True)
class DataFence:
    """The right to write, as `advance_fence` gave it; a later one takes it away."""

    task_id: TaskId
    epoch: int
    attempt: int
    lease_sequence: int


@dataclass(frozen=True)
class RowsOutput:
    """The new rows of one scope of one output."""

    output_index: int
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    scope: Scope
    rows: pa.Table | pa.RecordBatchReader
    """Held in memory until they are committed: what is large belongs into the S3 layout."""
    cursor_column: str | None = None
    """A whole-number column that places each row by itself, so that a later rewrite of a smaller
    range closes exactly the rows in it."""

    def fields(self) -> dict[str, Any]:
        return {
            "output_index": self.output_index,
            "dataset_uuid": str(self.dataset_uuid),
            "dataset_version": str(self.dataset_version),
            "scope": self.scope.fields(),
            "cursor_column": self.cursor_column,
        }


@dataclass(frozen=True)
class CursorMove:
    """A source's cursor, from where the slice began (None: no cursor yet) to where it ends."""

    expected: Any
    value: Any


@dataclass(frozen=True)
class DataCommit:
    """All that one attempt or slice writes at once: every output, or none."""

    fence: DataFence
    outputs: tuple[RowsOutput, ...]
    input_pins: tuple[Pin, ...]
    body: Mapping[str, Any]
    """What the attempt reports as its completion; whoever finds the record reports the same."""
    cursor: CursorMove | None = None
    step: int = 0
    """Counts the data transactions under one lease. The same call again has the same step."""

    @property
    def digest(self) -> str:
        """Tells another call from the same one again; the rows are not a part of it."""
        asked = {
            "outputs": [each.fields() for each in self.outputs],
            "input_pins": [each.fields() for each in self.input_pins],
            "body": self.body,
            "cursor": [self.cursor.expected, self.cursor.value] if self.cursor else None,
        }
        return hashlib.sha256(canonical_json(asked).encode()).hexdigest()


@dataclass(frozen=True)
class RecordedCommit:
    """One commit of one scope, as it is recorded."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    number: int
    output_index: int
    scope: Scope
    replaces: int
    """The newest commit that the scope held before; 0 when there was none."""
    row_count: int
    """Rows written; of an `append`, those that were new."""


@dataclass(frozen=True)
class Committed:
    """A data transaction that took place."""

    fence: DataFence
    """Under which it was written."""
    step: int
    commits: tuple[RecordedCommit, ...]
    body: Mapping[str, Any]
    repeated: bool = False
    """The same call had been committed before; nothing was written now."""


@dataclass(frozen=True)
class Unregistered:
    """A commit that the state database may not know yet."""

    commit: RecordedCommit
    fence: DataFence
    step: int
    input_pins: tuple[Pin, ...]
    body: Mapping[str, Any]
    committed_at: datetime
