"""One run of a case in each of its ways, timed, from Parquet to Parquet."""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession

from bench.spark.cases import Build, Case
from bench.spark.data import COLUMNS, Sample
from emr_jobs.main import run_payload
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import (
    SparkColumn,
    SparkInput,
    SparkObject,
    SparkOutput,
    SparkPart,
    SparkPayload,
)

OURS, BARE, FUNCTION, DUCKDB = "ours", "bare", "function", "DuckDB"


class Runs:
    """Runs in one warm session; what they write is thrown away unless it is asked for."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark, self._scratch = spark, scratch
        self._numbers = itertools.count()

    def ways(self, case: Case, sample: Sample) -> Mapping[str, Callable[[Path], None]]:
        """Each writes the rows to the folder that it is given."""
        found: dict[str, Callable[[Path], None]] = {
            OURS: lambda folder: self._ours(case, sample, folder),
            BARE: lambda folder: self._bare(case, case.bare, sample, folder),
        }
        if case.function is not None:
            function = case.function
            found[FUNCTION] = lambda folder: self._bare(case, function, sample, folder)
        found[DUCKDB] = lambda folder: duck(case, sample, folder)
        return found

    def timed(self, way: Callable[[Path], None]) -> float:
        folder = self._scratch / f"{next(self._numbers)}"
        folder.mkdir(parents=True)
        try:
            began = time.perf_counter()
            way(folder)
            return time.perf_counter() - began
        finally:
            shutil.rmtree(folder)

    def _ours(self, case: Case, sample: Sample, folder: Path) -> None:
        # What an operator prints is for the task's log.
        with contextlib.redirect_stdout(io.StringIO()):
            failure = run_payload(self._spark, payload(case, sample, folder)).failure
        if failure is not None:
            raise RuntimeError(f"{case.operator}: {failure.code}: {failure.message}")

    def _bare(self, case: Case, build: Build, sample: Sample, folder: Path) -> None:
        frames: dict[str, DataFrame] = {
            each: self._spark.read.parquet(*(str(path) for path in sample.paths(each)))
            for each in case.inputs
        }
        rows = build(frames, sample.blocks)
        rows.write.option("compression", "zstd").parquet(str(folder / "rows"))


def payload(case: Case, sample: Sample, folder: Path) -> SparkPayload:
    """As the platform writes it for a task about all blocks of the sample."""
    inputs = tuple(
        SparkInput(
            each,
            tuple(SparkColumn(column.name, column.type) for column in COLUMNS[each]),
            (SparkPart(tuple(SparkObject(f"file://{path}") for path in sample.paths(each))),),
        )
        for each in case.inputs
    )
    return SparkPayload(
        task_id="0193f000-0000-7000-8000-000000000001",
        attempt=1,
        dag="bench",
        job=case.operator,
        operator=case.operator,
        implementation=case.implementation,
        config=case.config(sample.blocks),
        now="2026-01-15T12:00:00+00:00",
        scope=Scope.of_range(0, sample.blocks - 1),
        trigger=None,
        inputs=inputs,
        outputs=(SparkOutput(0, f"file://{folder}/rows/"),),
        result_uri=f"file://{folder}/result.json",
    )


def duck(case: Case, sample: Sample, folder: Path) -> None:
    (folder / "rows").mkdir()
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        for each in case.inputs:
            files = [str(path) for path in sample.paths(each)]
            database.execute(f"CREATE VIEW {each} AS SELECT * FROM read_parquet({files})")
        database.execute(
            f"COPY ({case.duckdb(sample.blocks)}) TO '{folder}/rows/rows.parquet' "
            "(FORMAT parquet, COMPRESSION zstd)"
        )


def check_same(runs: Runs, case: Case, sample: Sample, scratch: Path) -> None:
    """Refuse to compare ways that do not give the same rows."""
    folders = {}
    for name, way in runs.ways(case, sample).items():
        if name != DUCKDB or case.duckdb_same:
            folders[name] = scratch / f"same-{case.operator}-{name}"
            folders[name].mkdir(parents=True)
            way(folders[name])
    try:
        with duckdb.connect() as database:
            database.execute("SET threads = 2")
            wanted = _read(folders[BARE])
            described = database.execute(f"DESCRIBE {wanted}").fetchall()
            columns = ", ".join(f'"{name}"::VARCHAR' for name, *_ in described)
            for name in set(folders) - {BARE}:
                apart = _apart(database, columns, _read(folders[name]), wanted)
                if apart:
                    raise RuntimeError(
                        f"{case.operator}: {apart} rows differ between {name} and bare, so their "
                        "times cannot be compared"
                    )
    finally:
        for each in folders.values():
            shutil.rmtree(each)


def _read(folder: Path) -> str:
    return f"SELECT * FROM read_parquet('{folder}/rows/**/*.parquet')"


def _apart(database: duckdb.DuckDBPyConnection, columns: str, one: str, other: str) -> int:
    told = 0
    for left, right in ((one, other), (other, one)):
        row = database.execute(
            f"SELECT count(*) FROM (SELECT {columns} FROM ({left}) "
            f"EXCEPT ALL SELECT {columns} FROM ({right}))"
        ).fetchone()
        told += row[0] if row else 0
    return told
