"""An app whose Spark runs are played by the test; everything else is real."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import SilentWaker
from tests.scripted_runner import ScriptedRunner
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import Ids, TaskId
from trace_core.settings import Settings
from trace_core.storage.reader import PinnedReader

DAG = """
version: 1
name: sparks
jobs:
  - {name: asked, activation: source, runtime: dispatcher, operator: range_request,
     source: {kind: manual}, outputs: 1}
  - {name: work, activation: reactive, runtime: emr_serverless, operator: spark_copy,
     execution_strategy: PerPartition, inputs: [{from: {job: asked, output: 0}}], outputs: 1,
     update_strategy: replace, timeout_seconds: 600}
  - {name: next, activation: reactive, runtime: emr_serverless, operator: spark_copy,
     execution_strategy: PerPartition, inputs: [{from: {job: work, output: 0}}], outputs: 1,
     update_strategy: replace, timeout_seconds: 600}
"""
LOADED = DAG.replace(
    "- {name: work, activation: reactive, runtime: emr_serverless, operator: spark_copy",
    "- {name: work, activation: reactive, runtime: emr_serverless, operator: spark_load",
)
LOOKING_BACK = DAG.replace(
    "- {name: next, activation: reactive, runtime: emr_serverless, operator: spark_copy",
    "- {name: next, activation: reactive, runtime: emr_serverless, operator: spark_look_back",
).replace(
    "[{from: {job: work, output: 0}}]",
    "[{from: {job: asked, output: 0}}, {from: {job: work, output: 0}}]",
)
ROWS = [{"number": 1, "name": "one"}, {"number": 2, "name": "two"}]


class Crash(BaseException):
    """The process died here."""


class SparkWorld:
    def __init__(
        self,
        state_dsn: str,
        data_dsn: str | None,
        folder: Path,
        clock: ManualClock,
        ids: Ids,
        dag: str = DAG,
    ) -> None:
        self.clock = clock
        self.crash_at: str | None = None
        """The next point of that name is the end of the process."""
        self.passed: list[str] = []
        self.state = StateDatabase(state_dsn, crash_points=self._point)
        settings = Settings(
            home=folder / "home",
            operator_modules=("tests.spark_specs",),
            data_dsn=SecretStr(data_dsn) if data_dsn else None,
        )
        objects = FileObjectStore(folder / "home" / "objects")
        root = f"file://{(folder / 'home' / 'objects').resolve()}/"
        self.runner = ScriptedRunner(clock, objects, root)
        self.app = App(
            settings, state=self.state, clock=clock, ids=ids, waker=SilentWaker(),
            spark_runner=self.runner, jitter=lambda: 0.5, objects=objects,
        )  # fmt: skip
        self.org = self.app.orgs.ensure_org("acme")
        self.app.deploys.deploy(self.org, dag, "sparks.dag.yaml", SYSTEM)

    def close(self) -> None:
        self.crash_at = None
        self.app.close()
        self.state.close()

    def _point(self, name: str) -> None:
        self.passed.append(name)
        if name == self.crash_at:
            self.crash_at = None
            raise Crash(name)

    def ask(self, start: int = 1, end: int = 2) -> None:
        self.app.requests.trigger(self.org, "sparks", "asked", {"start": start, "end": end}, SYSTEM)
        self.relay()
        self.app.dispatcher.run_once()

    def relay(self) -> None:
        for _ in range(3):
            self.app.relay.run_once()

    def begin(self, start: int = 1, end: int = 2) -> None:
        """A task of `work` whose run was asked for."""
        self.ask(start, end)
        self.relay()

    def watch(self, **later: float) -> Any:
        from datetime import timedelta

        self.clock.advance(timedelta(**later) if later else self.app.timings.run_poll)
        return self.app.spark.watch.run_once()

    def rows(self, sql: str, **params: Any) -> list[Any]:
        return self.state.read(sql, params)

    def runs(self) -> list[Any]:
        return self.rows("SELECT * FROM spark_runs ORDER BY task_id, start_number")

    def attempts(self) -> list[tuple[int, str, bool, str | None]]:
        rows = self.rows(
            "SELECT a.attempt, a.outcome, a.final, a.error_code FROM attempts a"
            " JOIN jobs j USING (job_id) WHERE j.name <> 'asked' ORDER BY a.task_id, a.attempt"
        )
        return [(row.attempt, row.outcome, row.final, row.error_code) for row in rows]

    def leases(self) -> list[Any]:
        return self.rows(
            "SELECT l.* FROM leases l JOIN jobs j USING (job_id) WHERE j.name <> 'asked'"
        )

    def task_ids(self, job: str = "work") -> list[TaskId]:
        rows = self.rows(
            "SELECT t.task_id FROM tasks t JOIN jobs j USING (job_id) WHERE j.name = %(job)s"
            " ORDER BY t.task_id",
            job=job,
        )
        return [TaskId(UUID(str(row.task_id))) for row in rows]

    def commits(self, job: str = "work") -> list[Any]:
        return self.rows(
            "SELECT c.* FROM commits c JOIN dataset_versions v USING (dataset_version)"
            " JOIN jobs j ON j.job_id = v.job_id WHERE j.name = %(job)s ORDER BY c.number",
            job=job,
        )

    def committed_rows(self, job: str = "work") -> list[dict[str, Any]]:
        from trace_core.storage.model import Pin

        (row,) = self.rows(
            "SELECT v.dataset_uuid, v.dataset_version, k.readable, c.swap FROM dataset_versions v"
            " JOIN jobs j ON j.job_id = v.job_id"
            " JOIN dataset_current c ON c.dataset_version = v.dataset_version"
            " JOIN version_counters k ON k.dataset_version = v.dataset_version"
            " WHERE j.name = %(job)s",
            job=job,
        )
        pin = Pin(row.dataset_uuid, row.dataset_version, row.readable, row.swap)
        (part,) = self.app.pin_resolver.resolve([pin])
        reader = PinnedReader(self.app.objects, self.app.data_reader)
        return sorted(reader.table(part).to_pylist(), key=lambda each: each["number"])
