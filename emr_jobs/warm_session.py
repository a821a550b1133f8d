"""The one session of the runner process, started when the first run needs it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from emr_jobs.session import local_session

# Whatever is left of a Java machine without memory cannot be trusted with the next run.
_JAVA_OPTIONS = "-XX:+UseSerialGC -Xss4m -XX:+ExitOnOutOfMemoryError"
_OUT_OF_MEMORY = 3
"""What Java exits with then."""


class WarmSession:
    def __init__(self, folder: Path, cores: int, memory: str, modules: Sequence[str]) -> None:
        self._scratch = folder / "scratch"
        self._cores = cores
        self._memory = memory
        self._modules = tuple(modules)
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._broken: BaseException | None = None

    @property
    def broken(self) -> BaseException | None:
        """Why there is no session, once one could not be started."""
        return self._broken

    def get(self) -> SparkSession:
        """Waits for the session, and starts it when nobody has."""
        with self._lock:
            if self._broken is not None:
                raise self._broken
            if self._session is None:
                try:
                    self._session = self._start()
                except BaseException as error:
                    self._broken = error
                    raise
            return self._session

    def _start(self) -> SparkSession:
        began = time.monotonic()
        _load_operators(self._modules)
        self._scratch.mkdir(parents=True, exist_ok=True)
        session = local_session(
            "trace",
            cores=self._cores,
            driver_memory=self._memory,
            scratch=self._scratch,
            settings={
                "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
                # Two runs at once share the cores, whoever came first.
                "spark.scheduler.mode": "FAIR",
            },
        )
        sys.stderr.write(f"the session is ready after {time.monotonic() - began:.1f} s\n")
        return session

    def java(self) -> Any:
        """The process of the Java machine; None while there is none."""
        gateway: Any = SparkContext._gateway
        return None if gateway is None else gateway.proc

    def died(self, wait: float = 0.0) -> str | None:
        """How the Java machine ended, if it did."""
        process = self.java()
        if process is None:
            return None
        deadline = time.monotonic() + wait
        while (code := process.poll()) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.02)
        if code == _OUT_OF_MEMORY:
            return (
                f"Spark had no memory left: it has {self._memory}; give it more with "
                "TRACE_SPARK_MEMORY, or the task less"
            )
        how = f"signal {-code}" if code < 0 else f"exit {code}"
        return f"Spark's Java machine died ({how}); nothing that the run wrote counts"

    def cancel(self, run_id: str) -> None:
        """Stop the Spark work of a run, and whatever it would begin after that."""
        context = SparkContext._active_spark_context
        # Of a Java machine that is gone, nothing works on.
        with suppress(Py4JError):
            if context is not None:
                context._jsc.sc().cancelJobGroupAndFutureJobs(run_id)

    def tidy(self) -> None:
        """What earlier runs left to all sessions; for moments when nothing runs."""
        if self._session is None:
            return
        catalog = self._session.catalog
        with suppress(Py4JError, PySparkException):
            catalog.clearCache()
            for view in catalog.listTables("global_temp"):
                catalog.dropGlobalTempView(view.name)

    def kill(self) -> None:
        process = self.java()
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def _load_operators(modules: Sequence[str]) -> None:
    """The project's own modules, under the names by which the catalog knows them."""
    from pyspark import cloudpickle

    from trace_core.operators.catalog import load_catalog

    catalog = load_catalog(modules)
    for operator in catalog.values():
        name = (operator.implementation or "").partition(":")[0]
        if name.startswith("trace_operators_") and name in sys.modules:
            # A file has no name that Spark's own Python processes could import.
            by_value: Any = cloudpickle.register_pickle_by_value
            by_value(sys.modules[name])
