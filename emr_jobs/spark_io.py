"""All that an operator reads and writes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from emr_jobs.columns import columns_of, conformed
from emr_jobs.configs import NAME_PATTERN
from emr_jobs.files import Files, check_folder, check_place
from emr_jobs.relation import relation
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import (
    SparkEmit,
    SparkInput,
    SparkInvalidation,
    SparkObject,
    SparkOutput,
    SparkPart,
    SparkPayload,
    SparkResult,
    SparkWritten,
)

_NAME = re.compile(NAME_PATTERN.removeprefix("^").removesuffix("$"))
# Nothing but the files that the result lists counts, so no marker is needed; and what a run left
# half written is never read, so that files may go where they belong as soon as they are whole.
_WRITE_OPTIONS = {
    "compression": "zstd",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
REASON_MAX = 500


class SparkIO:
    """The pinned inputs of one task, and the folders of its outputs; nothing else is touched."""

    def __init__(self, spark: SparkSession, task: SparkTask, run: str | None = None) -> None:
        self.spark = spark
        self._task = task
        self._files = Files(spark)
        # Of a run that died with the same payload, files may be there.
        self._run = run or uuid4().hex[:12]
        self._written: list[SparkWritten] = []
        self._events: list[SparkEmit] = []
        self._invalidations: list[SparkInvalidation] = []
        self._seconds: dict[str, float] = {}

    def read(self, alias: str, *, session: SparkSession | None = None) -> DataFrame:
        """The relation at its pin, in the task's scope and behind the input's `where`.

        As a frame of `session` where an operator has one of its own.
        """
        with self._timed("read"):
            return relation(session or self.spark, self._files, self._task.input(alias))

    def write(
        self,
        output_index: int,
        rows: DataFrame,
        *,
        scope: Scope | None = None,
        name: str = "rows",
        sort_by: Sequence[str] = (),
        one_file: bool = False,
        cursor_column: str | None = None,
    ) -> SparkWritten:
        """The rows of one scope of an output; without one, of the task's own scope.

        With `sort_by` the same rows are always written in the same order: ties are broken by the
        other columns. A scope is written once.
        """
        output, scope = self._task.output(output_index), scope or self._task.scope
        named = [*sort_by, cursor_column] if cursor_column else sort_by
        self._check(output, scope, name, rows, named)
        fitting = conformed(rows, output.columns or columns_of(rows))
        folder = f"{self._run}-{len(self._written)}"
        with self._timed("write"):
            _ordered(fitting, sort_by, one_file).write.options(**_WRITE_OPTIONS).mode(
                "errorifexists"
            ).parquet(f"{output.uri}{folder}")
            files = [f"{folder}/{each}" for each in self._files.list(f"{output.uri}{folder}")]
        written = SparkWritten(
            output_index,
            scope,
            tuple(each for each in files if each.endswith(".parquet")),
            columns_of(fitting),
            name,
            cursor_column,
        )
        self._written.append(written)
        return written

    def read_back(self, written: SparkWritten) -> DataFrame:
        """What was written, as it lies there: for operators that judge their own work."""
        folder = self._task.output(written.output_index).uri
        objects = tuple(SparkObject(f"{folder}{each}") for each in written.objects)
        given = SparkInput(written.name, written.columns, (SparkPart(objects),))
        with self._timed("read"):
            return relation(self.spark, self._files, given)

    def emit(self, output_index: int, scope: Scope) -> None:
        """Announce a scope of an output that has no rows."""
        self._task.output(output_index)
        self._events.append(SparkEmit(output_index, scope))

    def invalidate(self, alias: str, scope: Scope, reason: str) -> None:
        """Tell the producer of an input that a scope of it is bad, and is to be written again."""
        self._task.input(alias)
        self._invalidations.append(SparkInvalidation(alias, scope, reason[:REASON_MAX]))

    def result(self) -> SparkResult:
        seconds = {name: round(each, 3) for name, each in self._seconds.items()}
        return SparkResult(
            self._task.task_id,
            self._task.attempt,
            tuple(self._written),
            tuple(self._events),
            tuple(self._invalidations),
            seconds=seconds,
        )

    def _check(
        self, output: SparkOutput, scope: Scope, name: str, rows: DataFrame, named: Sequence[str]
    ) -> None:
        if not _NAME.fullmatch(name):
            raise OperatorFailed(f"{name!r} is no name for objects; write a-z, 0-9 and `_`")
        if any(
            each.output_index == output.output_index and each.scope.key == scope.key
            for each in self._written
        ):
            raise OperatorFailed(
                f"scope {scope.key or 'all'} of output {output.output_index} is written twice"
            )
        unknown = sorted(set(named) - set(rows.columns))
        if unknown:
            raise OperatorFailed(f"the rows have no column {', '.join(unknown)}, which is named")

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[what] = self._seconds.get(what, 0.0) + time.monotonic() - started


def check_places(payload: SparkPayload) -> None:
    """Refuse a payload whose addresses reach into one another, before anything is written."""
    check_place(payload.result_uri, "the result")
    folders = []
    for output in payload.outputs:
        check_folder(output.uri, f"output {output.output_index}")
        folders.append(output.uri)
    read = [each.uri for one in payload.inputs for part in one.parts for each in part.objects]
    for uri in read:
        check_place(uri, "an input")
    for index, folder in enumerate(folders):
        others = [*folders[:index], *folders[index + 1 :], *read, payload.result_uri]
        if any(other.startswith(folder) for other in others):
            raise OperatorFailed(
                "the folder of an output holds something else as well", code="PayloadInvalid"
            )


def _ordered(rows: DataFrame, sort_by: Sequence[str], one_file: bool) -> DataFrame:
    order = [*sort_by, *(each for each in rows.columns if each not in sort_by)] if sort_by else []
    if one_file:
        rows = rows.coalesce(1)
        return rows.sortWithinPartitions(*order) if order else rows
    return rows.orderBy(*order) if order else rows
