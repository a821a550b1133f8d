"""The adapters of each profile: what differs between one machine and AWS, and nothing else."""

from __future__ import annotations

from typing import Protocol

from trace_core.adapters.lite.arrivals import QueueArrivals
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.adapters.lite.file_secrets import FileSecretStore
from trace_core.adapters.lite.folder_credentials import FolderCredentialIssuer
from trace_core.adapters.lite.home import Home, SharedPostgres
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.local_spark import LocalSparkRunner, SparkSize
from trace_core.adapters.lite.notify import NotifyWaker
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.database.data import DataDatabase, DataRole
from trace_core.database.databases import ensure_database, name_of, named
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids
from trace_core.ports.arrivals import Arrivals
from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import CredentialIssuer
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Queue
from trace_core.ports.secret_store import SecretStore
from trace_core.ports.spark_runner import SparkRunner
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.ports.token_signer import TokenSigner
from trace_core.ports.waker import Waker
from trace_core.settings import Settings


class HasState(Protocol):
    """The parts that adapters are built on."""

    @property
    def settings(self) -> Settings: ...
    @property
    def home(self) -> Home: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...
    @property
    def state(self) -> StateDatabase: ...
    @property
    def state_dsn(self) -> str: ...
    @property
    def data_dsn(self) -> str: ...
    def local_runtime(self) -> TaskRuntime: ...


class Adapters(Protocol):
    """One method for each port whose adapter depends on the profile; each is called once."""

    def state_dsn(self) -> str: ...
    def state(self) -> StateDatabase: ...
    def data_dsn(self) -> str: ...
    def make_data_database(self) -> None: ...
    def data(self, role: DataRole | None) -> DataDatabase: ...
    def queue(self) -> Queue: ...
    def arrivals(self) -> Arrivals: ...
    def waker(self) -> Waker: ...
    def objects(self) -> ObjectStore: ...
    def secrets(self) -> SecretStore: ...
    def signer(self) -> TokenSigner: ...
    def task_runtime(self) -> TaskRuntime: ...
    def runner_concurrency(self) -> int | None: ...
    def spark_runner(self) -> SparkRunner: ...
    def spark_concurrency(self) -> int | None: ...
    def object_address(self, key: str) -> str: ...
    def credential_issuer(self) -> CredentialIssuer: ...
    def close(self) -> None: ...


class LiteAdapters:
    """Everything in the home folder and in Postgres."""

    def __init__(self, parts: HasState) -> None:
        self._parts = parts
        self._postgres: SharedPostgres | None = None

    def state_dsn(self) -> str:
        given = self._parts.settings.state_dsn
        if given is not None:
            return given.get_secret_value()
        self._postgres = self._parts.home.postgres()
        return self._postgres.acquire()

    def state(self) -> StateDatabase:
        parts = self._parts
        return StateDatabase(parts.state_dsn, size=parts.settings.state_connections)

    def data_dsn(self) -> str:
        given = self._parts.settings.data_dsn
        if given is not None:
            return given.get_secret_value()
        beside = self._parts.state_dsn
        if self._postgres is not None:
            return self._postgres.acquire_data()
        return named(beside, f"{name_of(beside)}_data")

    def make_data_database(self) -> None:
        if self._parts.settings.data_dsn is None:
            ensure_database(self._parts.state_dsn, name_of(self._parts.data_dsn))

    def data(self, role: DataRole | None) -> DataDatabase:
        parts = self._parts
        return DataDatabase(parts.data_dsn, role=role, size=parts.settings.data_connections)

    def queue(self) -> Queue:
        return PgQueue(self._parts.state, self._parts.clock, self._parts.ids)

    def arrivals(self) -> Arrivals:
        return QueueArrivals(self._parts.state_dsn)

    def waker(self) -> Waker:
        return NotifyWaker(self._parts.state)

    def objects(self) -> ObjectStore:
        return FileObjectStore(self._parts.home.objects)

    def secrets(self) -> SecretStore:
        return FileSecretStore(self._parts.home.secrets)

    def signer(self) -> TokenSigner:
        return KeyFileSigner(self._parts.home.keys / "task.pem")

    def task_runtime(self) -> TaskRuntime:
        return self._parts.local_runtime()

    def runner_concurrency(self) -> int | None:
        """None: the runtime counts what it holds, and is the only one."""
        return None

    def spark_runner(self) -> SparkRunner:
        settings = self._parts.settings
        return LocalSparkRunner(
            self._parts.home.spark,
            size=SparkSize(
                settings.spark_cores,
                settings.spark_memory,
                settings.spark_places,
                settings.spark_idle_seconds,
            ),
            modules=settings.operator_modules,
        )

    def spark_concurrency(self) -> int | None:
        """None: as the runtime."""
        return None

    def object_address(self, key: str) -> str:
        """Where a Spark run finds the object with that key."""
        return f"file://{self._parts.home.objects.expanduser().resolve()}/{key}"

    def credential_issuer(self) -> CredentialIssuer:
        return FolderCredentialIssuer(self._parts.home.objects, self._parts.clock)

    def close(self) -> None:
        if self._postgres is not None:
            self._postgres.release()
            self._postgres = None
