"""Datasets, tasks and writers on one data database, for tests that look at each step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.dataset_layouts import Definition, Layouts, PostgresLayout
from tests.manual_clock import ManualClock
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.database.data import DataDatabase, DataRole
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids, TaskId
from trace_core.storage.model import Backend, Pin
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.versions import VersionTables

PATIENCE = 10.0


class Crash(BaseException):
    """The process is gone."""


class DataWorld:
    def __init__(self, dsn: str, folder: Path, clock: ManualClock, ids: Ids) -> None:
        self.dsn, self.clock, self.ids = dsn, clock, ids
        self.data = DataDatabase(dsn, size=8)
        self.store = FileObjectStore(folder)
        self.tables = VersionTables(self.data)
        self.output = PostgresOutput(self.data, clock)
        self._opened = [self.data]

    def close(self) -> None:
        for each in self._opened:
            each.close()

    def layout(self, **changes: Any) -> PostgresLayout:
        made = Layouts(self.store, self.data, self.clock, self.ids, Backend.POSTGRES).make(
            **changes
        )
        assert isinstance(made, PostgresLayout)
        return made

    def definition(self, **changes: Any) -> Definition:
        return Definition(DatasetUuid(self.ids.uuid()), DatasetVersion(self.ids.uuid()), **changes)

    def task(self) -> TaskId:
        return TaskId(self.ids.uuid())

    def pin(self, dataset: DatasetUuid, number: int, swap: int = 1) -> Pin:
        return Pin(dataset, DatasetVersion(self.ids.uuid()), number, swap)

    def session(self, **settings: Any) -> DataDatabase:
        """Another process: with a role, or with crash points."""
        made = DataDatabase(self.dsn, size=2, **settings)
        self._opened.append(made)
        return made

    def writer(self, point: Callable[[str], None]) -> PostgresOutput:
        """Another process that passes each named point through `point`."""
        found = self.session(role=DataRole.WRITER, crash_points=point)
        return PostgresOutput(found, self.clock)

    def one(self, statement: str, *params: Any) -> Any:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(statement, params).fetchone()  # type: ignore[arg-type]
            return row[0] if row else None

    def run(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def wait_until_blocked(self) -> None:
        """Until some session of this database waits for another."""
        statement = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        give_up = threading.Event()
        timer = threading.Timer(PATIENCE, give_up.set)
        timer.start()
        try:
            while not self.one(statement):
                assert not give_up.is_set(), "nobody waits"
        finally:
            timer.cancel()


class Frozen:
    """A process that stops at a named point until it is thawed."""

    def __init__(self, point: str) -> None:
        self._point = point
        self._reached, self._thaw = threading.Event(), threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, name: str) -> None:
        if name == self._point:
            self._reached.set()
            assert self._thaw.wait(PATIENCE), "never thawed"

    @contextmanager
    def running(self, work: Callable[[], Any]) -> Iterator[None]:
        """Inside the block it stands frozen; after it, it has ended."""
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()
        try:
            assert self._reached.wait(PATIENCE), "never got there"
            yield
        finally:
            self.thaw()
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive()

    def thaw(self) -> None:
        self._thaw.set()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error
