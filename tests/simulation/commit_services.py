"""The real services of a small world of commits, on both sides: the platform's and the worker's."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.factories import CATALOG
from tests.manual_clock import START, ManualClock
from tests.postgres_server import PostgresServer
from tests.simulation.kept_tables import SQL, KeptObjects, KeptTables
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.data import DataDatabase, Places
from trace_core.database.postgres import as_json
from trace_core.database.state import StateDatabase
from trace_core.deploy.service import Deploys
from trace_core.identity.model import SYSTEM
from trace_core.identity.orgs import Orgs
from trace_core.kernel import limits
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids
from trace_core.ports.row_store import RowStore
from trace_core.ports.waker import Function
from trace_core.registry.pins import PinResolver
from trace_core.storage.model import (
    Backend,
    Manifest,
    ManifestIdentity,
    Pin,
    schema_name,
    table_name,
)
from trace_core.storage.objects import verify_manifest
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.reader import PinnedReader
from trace_core.storage.task_rows import TaskRows
from trace_core.storage.versions import VersionTable, VersionTables
from trace_core.tasks.admin import TaskAdmin
from trace_core.tasks.claim import Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.events import EventAcceptance
from trace_core.tasks.leases import Leases
from trace_core.tasks.payload import Payloads
from trace_core.tasks.reaper import Reaper
from trace_core.tasks.reconcile import Reconciliation
from trace_core.worker.rows import RowAccess

DAG = """
version: 1
name: small
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 1, update_strategy: replace, max_attempts: 2}
  - {name: c, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: b, output: 0}}], outputs: 1, update_strategy: replace}
"""
COLUMNS = (Column("number", "bigint"), Column("value", "text"))
_TIMINGS = limits.Timings(
    lease=timedelta(seconds=10), backoff_base=timedelta(seconds=1),
    backoff_cap=timedelta(seconds=1), sweep_grace=timedelta(0),
)  # fmt: skip


class _Deaf:
    def wake(self, function: Function) -> None:
        """Every order of turns is walked anyway."""


class Services:
    """`a` is an input without rows; the rows of `b` are kept in one of two layouts; `c` follows."""

    def __init__(self, state_dsn: str, data_dsn: str, backend: Backend, scratch: Path) -> None:
        self.backend, self.scratch = backend, scratch
        self.clock = ManualClock(START)
        self.ids = Ids(self.clock.now, random.Random(0).getrandbits)  # noqa: S311
        self.state = StateDatabase(state_dsn, crash_points=self._point)
        self.data = DataDatabase(data_dsn, crash_points=self._point)
        self.objects = KeptObjects()
        self._points: list[str] = []
        self._step_in: Callable[[], None] = _nothing
        state, clock, ids, waker = self.state, self.clock, self.ids, _Deaf()
        self.org = Orgs(state, clock, ids).ensure_org("acme")
        Deploys(state, clock, ids, waker, CATALOG).deploy(self.org, DAG, "small.yaml", SYSTEM)
        self.claims = Claims(state, clock, ids, _TIMINGS)
        self.leases = Leases(state, clock, _TIMINGS)
        self.payloads = Payloads(state, clock, lambda _request: "token")
        self.acceptance = EventAcceptance(state, clock, ids, waker)
        self.completions = Completions(
            state, clock, ids, waker, _half, _TIMINGS, self._read_manifest
        )
        self.reaper = Reaper(state, clock, ids, waker, _half, _TIMINGS)
        self.admin = TaskAdmin(state, clock, ids, waker)
        self.sweep = Reconciliation(
            state, clock, ids, waker, lambda: PostgresOutput(self.data, clock), _TIMINGS
        )
        self.input = self._output("a")
        self.output = self._output("b")
        self._keep_rows()
        self.kept_state = KeptTables(self.state, "state")
        self.kept_data: KeptTables | None = None
        if backend is Backend.POSTGRES:
            self.kept_data = KeptTables(self.data, "data", self._places())

    def access(self) -> RowAccess:
        store = TaskRows(self.objects, lambda: self.data, self.clock)
        return RowAccess(lambda: _as_store(store), _reads_nothing)

    def rows_at(self, number: int) -> tuple[str, ...]:
        """What the pinned reader gives for a pin of `b`."""
        (part,) = PinResolver(self.state).resolve([Pin(*self.output, number, 1)])
        found = PinnedReader(self.objects, self.data).table(part)
        return tuple(sorted(found.column("value").to_pylist()))

    @contextmanager
    def stepping_in(self, points: Sequence[str], act: Callable[[], None]) -> Iterator[None]:
        """Somebody acts when another one has reached all these points, in whatever order."""
        self._points, self._step_in = list(points), act
        try:
            yield
        finally:
            self._points = []

    def _point(self, name: str) -> None:
        if name in self._points:
            self._points.remove(name)
            if not self._points:
                self._step_in()

    def _read_manifest(self, key: str, prefix: str, expected: ManifestIdentity) -> Manifest:
        return verify_manifest(self.objects, key, prefix, expected)

    def _output(self, job: str) -> tuple[DatasetUuid, DatasetVersion]:
        (row,) = self.state.read(SQL["output_of_job"], {"job": job})
        return DatasetUuid(row.dataset_uuid), DatasetVersion(row.dataset_version)

    def _places(self) -> Places:
        dataset, version = self.output
        return {"schema": schema_name(dataset), "table": table_name(version)}

    def _keep_rows(self) -> None:
        columns: list[dict[str, Any]] = [{"name": e.name, "type": e.type} for e in COLUMNS]
        dataset, version = self.output
        self.state.write(
            "keep_rows_in",
            SQL["keep_rows_in"],
            {
                "backend": self.backend.value,
                "columns": as_json(columns),
                "dataset_version": version,
            },
        )
        if self.backend is Backend.POSTGRES:
            table = VersionTable(dataset, version, COLUMNS, UpdateStrategy.REPLACE)
            VersionTables(self.data).ensure_version(table)


def _nothing() -> None:
    """Nobody steps in."""


def _half() -> float:
    return 0.5


def _as_store(store: TaskRows) -> RowStore:
    return store


def _reads_nothing(*_asked: object) -> Any:
    raise NotImplementedError("operators of the small world read no rows")


@contextmanager
def services(server: PostgresServer, backend: Backend) -> Iterator[Services]:
    """On two databases of their own."""
    state_dsn, data_dsn = server.clone(), server.clone("data")
    with tempfile.TemporaryDirectory(prefix="trace-small-") as scratch:
        made = Services(state_dsn, data_dsn, backend, Path(scratch))
        try:
            yield made
        finally:
            made.state.close()
            made.data.close()
            server.drop(state_dsn)
            server.drop(data_dsn)
