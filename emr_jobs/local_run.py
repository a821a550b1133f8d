"""One run in a thread of the runner, with a job group of its own so that a cancel ends its work."""

from __future__ import annotations

import ctypes
import json
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from emr_jobs.main import run_payload
from emr_jobs.printed import printing_to
from trace_core.adapters.lite.spark_runs import Run, SparkRuns
from trace_core.ports.spark_runner import RunState
from trace_core.spark.wire import LOG_NAME, SparkPayload


class Interrupted(BaseException):
    """Raised in the thread of a run that is to end; no operator catches it by accident."""


class LocalRun:
    """`outcome` is what it came to, once it is over; None when it never began."""

    def __init__(
        self,
        run: Run,
        runs: SparkRuns,
        session: Callable[[], SparkSession],
        when_over: Callable[[], None],
    ) -> None:
        self.run = run
        self.outcome: tuple[RunState, str] | None = None
        self.over = False
        self.spark_lost = False
        """It ended in a way in which runs end when Spark goes away under them."""
        self.ending_since: float | None = None
        self._runs = runs
        self._session = session
        self._when_over = when_over
        self._thread = threading.Thread(target=self._main, name=f"run-{run.run_id}", daemon=True)
        self._stopping: threading.Thread | None = None
        self._own: SparkSession | None = None

    def begin(self) -> None:
        self._thread.start()

    def interrupt(self) -> None:
        """For Python code of the operator that waits for no Spark work: stops at its next line."""
        identity = self._thread.ident
        if identity is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(identity), ctypes.py_object(Interrupted)
            )

    def stop_work(self, cancel: Callable[[str], None]) -> None:
        """Cancel its Spark work, again and again, without waiting: Java may answer nothing."""
        if self._stopping is None or not self._stopping.is_alive():
            self._stopping = threading.Thread(target=self._stop, args=(cancel,), daemon=True)
            self._stopping.start()

    def _stop(self, cancel: Callable[[str], None]) -> None:
        cancel(self.run.run_id)
        if self._own is not None:
            stop_session(self._own)

    def _main(self) -> None:
        try:
            self._run()
        except Interrupted:
            self.outcome = (RunState.CANCELLED, "")
        except BaseException as error:
            self.outcome = (RunState.FAILED, f"{type(error).__name__}: {error}")
            self.spark_lost = True
            traceback.print_exc()
        finally:
            self.over = True
            self._when_over()

    def _run(self) -> None:
        try:
            session = self._session()
        except Exception as error:
            self.outcome = (RunState.FAILED, f"Spark cannot be started: {error}")
            return
        run_id, request = self.run.run_id, self.run.request
        if not self._runs.schedule(run_id):
            return
        context = session.sparkContext
        context.setJobGroup(run_id, request.name, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", run_id)
        payload = SparkPayload.parse(read_payload(request.payload_uri))
        # Views and settings of its own, and the same context.
        own = self._own = session.newSession()
        if not self._runs.start(run_id, time.time()):
            return
        log = _path(payload.result_uri).with_name(LOG_NAME)
        with tables_of_its_own(own, run_id), printing_to(log):
            result = run_payload(own, payload)
            if result.failure is not None:
                print(f"{result.failure.code}: {result.failure.message}")
        if result.failure is None:
            self.outcome = (RunState.SUCCESS, "")
        else:
            told = f"{result.failure.code}: {result.failure.message}"
            self.outcome = (RunState.FAILED, told)
            self.spark_lost = result.failure.code == "SparkLost"


def stop_session(session: SparkSession) -> None:
    """The work of threads that an operator began itself: they have no job group."""
    with suppress(Exception):
        session.interruptAll()


@contextmanager
def tables_of_its_own(session: SparkSession, run_id: str) -> Iterator[None]:
    """All sessions of a context have one catalog; on EMR Serverless each run begins with none."""
    name = f"run_{run_id}"
    session.sql(f"CREATE DATABASE {name}")
    try:
        session.catalog.setCurrentDatabase(name)
        yield
    finally:
        stop_session(session)
        # Of a Java machine that is gone, nothing is left.
        with suppress(Exception):
            session.sql(f"DROP DATABASE {name} CASCADE")


def read_payload(uri: str) -> dict[str, Any]:
    found = json.loads(_path(uri).read_bytes())
    if not isinstance(found, dict):
        raise ValueError(f"{uri} is no JSON object")
    return found


def _path(uri: str) -> Path:
    if not uri.startswith("file:///"):
        raise ValueError(f"{uri} is no file:// address; on one machine objects are files")
    return Path(uri.removeprefix("file://"))
