"""Statements of ours over rows, in a DuckDB that reaches no file, no network and no other rows.

It keeps what does not fit its memory in a folder that goes with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from trace_core.dag.filters import check_field
from trace_core.database.sql import Statements

_SQL = Statements("trace_core.storage", "row_sql.sql")
_MEMORY = "512MB"
_BATCH_ROWS = 65_536


class RowSql:
    """Rows under the name `given`, readable once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._failed: list[BaseException] = []

    def give(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        reader = pa.RecordBatchReader.from_batches(schema, self._watched(batches))
        self._connection.register("given", reader)

    def run(self, name: str, **places: str | int) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._connection.execute(_SQL[name].format(**places)).fetchall()

    def stream(self, name: str, **places: str) -> Iterator[pa.RecordBatch]:
        with self._errors():
            found = self._connection.sql(_SQL[name].format(**places))
            yield from found.to_arrow_reader(_BATCH_ROWS)

    def _watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:
            self._failed.append(error)
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What a source of rows raised passes DuckDB as a text; here it is itself again."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException):
            if self._failed:
                raise self._failed[0] from None
            raise


@contextmanager
def row_sql() -> Iterator[RowSql]:
    with tempfile.TemporaryDirectory(prefix="trace-rows-") as folder:
        settings: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "threads": "2",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.execute(_SQL["speak_utc"])
            connection.execute(_SQL["lock_out"])
            yield RowSql(connection)


def quoted(*names: str) -> str:
    """Columns for a place in a statement."""
    for name in names:
        check_field(name)
    return ", ".join(f'"{name}"' for name in names)
