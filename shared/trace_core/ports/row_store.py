"""Rows of datasets, for whoever runs operators: read at a pin, written under a fence.

Rows are handed over in Arrow files, so that operator code needs no credentials for any of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trace_core.kernel.scopes import Scope


@dataclass(frozen=True)
class RowsFile:
    """What an operator left for one scope of one output."""

    output_index: int
    scope: Scope
    path: Path
    cursor_column: str | None = None
    """Places each row by itself: see `operators/api.py`."""
    name: str = "rows"
    """What its objects are called."""


@dataclass(frozen=True)
class StoredRows:
    """One scope of one output that is written, ready to be reported."""

    output_index: int
    scope: Scope
    row_count: int
    manifest_key: str | None = None
    """In the S3 layout."""
    commit_number: int | None = None
    """In the data database, where it is committed."""
    replaces: int = 0
    written_by: tuple[int, int] | None = None
    """The attempt and the lease sequence under which it was committed."""


@dataclass(frozen=True)
class Done:
    """What an earlier attempt of the task committed and did not live to report."""

    body: Mapping[str, Any]
    rows: Sequence[StoredRows]


@dataclass(frozen=True)
class Begun:
    """An attempt that may write."""

    fence: Any = None
    """The store's own; nothing for outputs that need none."""
    cursor: Any = None
    """How far a source has come."""
    keeps_cursor: bool = False
    """A source's cursor is kept with its rows, not in the operator state."""
    done: Done | None = None


class RowStore(Protocol):
    def begin(self, payload: Mapping[str, Any]) -> Begun:
        """Before the operator runs or anything is read: take over from earlier attempts.

        Raises `Fenced` when a later attempt has done so already.
        """
        ...

    def fetch(
        self,
        parts: Sequence[Mapping[str, Any]],
        into: Path,
        *,
        scope: Scope | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> None:
        """Write the rows of resolved parts, as one relation, into a new Arrow file."""
        ...

    def store(
        self,
        payload: Mapping[str, Any],
        begun: Begun,
        files: Sequence[RowsFile],
        body: Mapping[str, Any],
        cursor: Any = None,
    ) -> list[StoredRows]:
        """Write everything that an attempt leaves, or nothing that counts.

        `body` is what the attempt will report besides; `cursor` is where a source's cursor moves
        to, in the same transaction. Raises `Fenced`, and `Superseded` when newer inputs are in an
        output already.
        """
        ...
