"""A folder in the shape of an object store: inputs are written with Arrow, as the platform does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from emr_jobs.main import run_payload
from trace_core.dag.model import Column
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import (
    Bounds,
    SparkColumn,
    SparkInput,
    SparkObject,
    SparkOutput,
    SparkPart,
    SparkPayload,
    SparkResult,
    SparkWritten,
)
from trace_core.storage.rows import arrow_schema

Row = Mapping[str, Any]
Columns = Mapping[str, str]


def columns_of(columns: Columns) -> tuple[SparkColumn, ...]:
    return tuple(SparkColumn(name, kind) for name, kind in columns.items())


def table(columns: Columns, rows: Iterable[Row]) -> pa.Table:
    schema = arrow_schema([Column(name, kind) for name, kind in columns.items()])
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


@dataclass
class Place:
    root: Path
    spark: SparkSession
    _made: int = field(default=0)

    def object(
        self,
        columns: Columns,
        rows: Iterable[Row],
        *,
        number: int = 0,
        keep: Sequence[Bounds] | None = None,
        folder: str = "objects",
    ) -> SparkObject:
        self._made += 1
        path = self.root / folder / f"rows_{self._made}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = table(columns, rows)
        pq.write_table(found, path)
        kept = None if keep is None else tuple(keep)
        return SparkObject(f"file://{path}", number, found.num_rows, kept)

    def input(
        self,
        alias: str,
        columns: Columns,
        rows: Iterable[Row] = (),
        *,
        cursor_column: str | None = None,
        where: str | None = None,
    ) -> SparkInput:
        part = SparkPart((self.object(columns, rows),), cursor_column)
        return SparkInput(alias, columns_of(columns), (part,), where)

    def output(
        self, output_index: int = 0, columns: Columns | None = None, **changes: Any
    ) -> SparkOutput:
        uri = f"file://{self.root}/staging/{self._made}/{output_index}/"
        return SparkOutput(output_index, uri, columns_of(columns or {}), **changes)

    def payload(self, implementation: str, **changes: Any) -> SparkPayload:
        self._made += 1
        given = SparkPayload(
            task_id="0193f000-0000-7000-8000-000000000001",
            attempt=1,
            dag="chain",
            job="work",
            operator=implementation.rpartition(".")[2].partition(":")[0],
            implementation=implementation,
            config={},
            now="2026-01-15T12:00:00+00:00",
            scope=Scope(),
            trigger=None,
            inputs=(),
            outputs=(self.output(),),
            result_uri=f"file://{self.root}/results/{self._made}/result.json",
        )
        return replace(given, **changes)

    def run(self, implementation: str, **changes: Any) -> SparkResult:
        """As the warm runner does it, with the result read back from where it was written."""
        payload = self.payload(implementation, **changes)
        path = Path(payload.result_uri.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        told = run_payload(self.spark, SparkPayload.parse(json.loads(json.dumps(payload.fields()))))
        written = SparkResult.parse(json.loads(path.read_text()))
        assert written == told
        self.outputs = payload.outputs
        return written

    def rows_of(self, written: SparkWritten) -> list[dict[str, Any]]:
        return [row for each in self.tables_of(written) for row in each.to_pylist()]

    def tables_of(self, written: SparkWritten) -> list[pa.Table]:
        """Each object on its own, in the order in which they are to be named."""
        uri = next(
            each.uri for each in self.outputs if each.output_index == written.output_index
        ).removeprefix("file://")
        return [pq.ParquetFile(Path(uri) / each).read() for each in written.objects]

    def rows(self, implementation: str, **changes: Any) -> list[dict[str, Any]]:
        """The rows of the one scope that the operator writes."""
        result = self.run(implementation, **changes)
        assert result.failure is None, result.failure
        [written] = result.written
        return self.rows_of(written)
