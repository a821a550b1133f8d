"""One scope's rows inside a data transaction: close what it replaces, or add what is new."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trace_core.dag.model import UpdateStrategy
from trace_core.database.arrays import Bigints
from trace_core.database.data import DataTransaction
from trace_core.database.sql import Statements
from trace_core.kernel.errors import Superseded
from trace_core.kernel.scopes import Scope
from trace_core.storage.commits import DataCommit, RowsOutput
from trace_core.storage.copy_rows import csv_chunks
from trace_core.storage.errors import PartialOverlap
from trace_core.storage.model import Pin, any_later
from trace_core.storage.scopes import WHOLE, covers
from trace_core.storage.versions import VersionTable

STATEMENTS = Statements("trace_core.storage", "postgres_output.sql")
Batches = list[pa.RecordBatch]


def write_rows(
    tx: DataTransaction,
    write: DataCommit,
    output: RowsOutput,
    version: VersionTable,
    batches: Batches,
    number: int,
) -> None:
    """The commit of one scope; the caller holds the fence and the version's counter."""
    start_at, end_at = output.scope.range or (None, None)
    given = {
        "dataset_version": output.dataset_version,
        "number": number,
        "scope": output.scope.key,
        "start_at": start_at,
        "end_at": end_at,
    }
    if version.update_strategy is UpdateStrategy.REPLACE:
        replaces = _close(tx, write, output, version, given)
        _copy(tx, "copy_rows", version, output, batches, number)
        row_count = sum(batch.num_rows for batch in batches)
    else:
        last = tx.one(STATEMENTS["last_append"], given)
        replaces = last.number if last else 0
        row_count = _append(tx, version, output, batches, number)
    tx.run(
        STATEMENTS["add_record"],
        {
            **given,
            **vars(write.fence),
            "step": write.step,
            "output_index": output.output_index,
            "replaces": replaces,
            "row_cursors": output.cursor_column is not None,
            "row_count": row_count,
        },
    )


def _close(
    tx: DataTransaction,
    write: DataCommit,
    output: RowsOutput,
    version: VersionTable,
    given: dict[str, Any],
) -> int:
    """Close what the scope holds; answers its newest commit. Refuses what would go back in time
    or cut a commit apart."""
    covered, newest = [], 0
    for row in tx.all(STATEMENTS["open_commits"], given):
        earlier = Scope.parse(row.scope, row.start_at, row.end_at)
        if any_later([Pin.parse(each) for each in row.input_pins], write.input_pins):
            raise Superseded(
                dataset_version=str(output.dataset_version),
                scope=output.scope.fields(),
                number=row.number,
            )
        if covers(output.scope, earlier):
            covered.append(row.number)
        elif not row.row_cursors:
            raise PartialOverlap(
                scope=output.scope.fields(), earlier=earlier.fields(), number=row.number
            )
        newest = max(newest, row.number)
    places = version.places()
    if output.scope == WHOLE:
        tx.run(STATEMENTS["close_all_rows"], given, places)
    elif output.scope.range is not None:
        tx.run(STATEMENTS["close_rows_of_range"], given, places)
    else:
        tx.run(STATEMENTS["close_rows_of_scope"], given, places)
    tx.run(STATEMENTS["close_commits"], {**given, "numbers": Bigints(covered)})
    return newest


def _append(
    tx: DataTransaction,
    version: VersionTable,
    output: RowsOutput,
    batches: Batches,
    number: int,
) -> int:
    places = {**version.places(), "appended": "appended"}
    tx.run(STATEMENTS["make_appended"], {}, places)
    _copy(tx, "copy_appended", version, output, batches, number)
    added = tx.run(STATEMENTS["append_rows"], {}, places)
    tx.run(STATEMENTS["drop_appended"], {}, places)
    return added


def _copy(
    tx: DataTransaction,
    statement: str,
    version: VersionTable,
    output: RowsOutput,
    batches: Batches,
    number: int,
) -> None:
    chunks = csv_chunks(
        batches,
        number=number,
        scope=output.scope.key,
        bounds=output.scope.range,
        cursor_column=output.cursor_column,
        positions=statement == "copy_appended",
    )
    tx.copy(STATEMENTS[statement], {**version.places(), "appended": "appended"}, chunks)
