"""Where a run begins: `spark-submit main.py <payload URI>`, or `run_payload` in a warm session."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from emr_jobs.failures import failure_of
from emr_jobs.files import Files
from emr_jobs.printed import install, printing_to
from emr_jobs.session import prepare
from emr_jobs.spark_io import SparkIO, check_places
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.spark.wire import LOG_NAME, SparkPayload, SparkResult

Run = Callable[[SparkTask, SparkIO], None]


def run_payload(spark: SparkSession, payload: SparkPayload) -> SparkResult:
    """Run one task and write its result last; an error of the operator is a result as well.

    Raises only when the result cannot be written.
    """
    prepare(spark)
    started = time.monotonic()
    try:
        check_places(payload)
        task = SparkTask.of(payload)
        io = SparkIO(spark, task)
        load(payload.implementation)(task, io)
        result = io.result()
    except (Exception, SystemExit) as error:
        # An operator that leaves with 0 would pass for one that is done, and left nothing.
        result = SparkResult(payload.task_id, payload.attempt, failure=failure_of(error))
    took = {**result.seconds, "run": round(time.monotonic() - started, 3)}
    result = dataclasses.replace(result, seconds=took)
    Files(spark).write_json(payload.result_uri, result.fields())
    return result


def load(implementation: str) -> Run:
    """The function that a catalog entry names as `module:function`."""
    module, _, name = implementation.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OperatorFailed(
            f"{implementation} cannot be loaded: {error}", code="ImplementationMissing"
        ) from error
    if not callable(found):
        raise OperatorFailed(f"{implementation} is no function", code="ImplementationMissing")
    run: Run = found
    return run


def _keep_log(files: Files, payload: SparkPayload, printed: Path) -> None:
    """The result is written by now, and says how the run ended whatever becomes of its log."""
    folder_uri = payload.result_uri.rpartition("/")[0]
    try:
        files.write_bytes(f"{folder_uri}/{LOG_NAME}", printed.read_bytes())
    except Exception as error:
        sys.stderr.write(f"the log cannot be kept: {type(error).__name__}: {error}\n")


def main(payload_uri: str) -> int:
    """0 when the task was done; 1 when it failed, and the result says why.

    What the operator prints is kept beside the result, so that the platform can show it.
    """
    install()
    spark = SparkSession.Builder().getOrCreate()
    payload = SparkPayload.parse(Files(spark).read_json(payload_uri))
    files = Files(spark)
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / LOG_NAME
        try:
            with printing_to(printed):
                result = run_payload(spark, payload)
                if result.failure is not None:
                    print(f"{result.failure.code}: {result.failure.message}")
        finally:
            _keep_log(files, payload, printed)
    if result.failure is not None:
        sys.stderr.write(f"{result.failure.code}: {result.failure.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark-submit main.py <payload URI>")
    sys.exit(main(sys.argv[1]))
