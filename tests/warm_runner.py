"""The port `SparkRunner` over the warm session of this process: real runs, at the test's own times.

What a run reads and writes is real, by `emr_jobs.main`; only when it begins, when it works and when
somebody hears of it is said by the test, so that a seed says it.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from emr_jobs.main import run_payload
from tests.scripted_runner import ScriptedRunner
from trace_core.ports.spark_runner import RunState
from trace_core.spark.wire import SparkPayload, SparkResult


@dataclass
class WarmRunner(ScriptedRunner):
    spark: SparkSession = field(kw_only=True)
    failures: list[str] = field(default_factory=list)
    """What operators refused."""
    seconds: float = 0.0
    """Spent in Spark."""
    compactions: int = 0
    """Runs that wrote something."""

    def waiting(self) -> list[str]:
        return [run_id for run_id, run in self.runs.items() if run.state is RunState.SUBMITTED]

    def running(self) -> list[str]:
        return [run_id for run_id, run in self.runs.items() if run.state is RunState.RUNNING]

    def work(self, run_id: str) -> SparkResult:
        """What the run does; nobody hears that it is done."""
        key = self._key(self.run(run_id).request.payload_uri)
        payload = SparkPayload.parse(json.loads(self.objects.read(key)))
        began = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()):
            result = run_payload(self.spark.newSession(), payload)
        self.seconds += time.monotonic() - began
        self.compactions += bool(result.written)
        if result.failure is not None:
            self.failures.append(f"{result.failure.code}: {result.failure.message}")
        return result

    def end(self, run_id: str, result: SparkResult) -> None:
        self.move(RunState.SUCCESS if result.failure is None else RunState.FAILED, run_id)
