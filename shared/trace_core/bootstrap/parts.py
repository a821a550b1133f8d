"""What comes from outside: clock, databases, queue, files, keys, child processes.

Everything is built when it is first asked for. Tests and simulations pass their own parts through
the same door.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.home import Home
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.processes import ProcessRuntime
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.adapters.oidc_keys import OidcKeySource
from trace_core.bootstrap.profiles import Adapters, LiteAdapters
from trace_core.dag.catalog import Catalog
from trace_core.database import migrate as schema
from trace_core.database.data import DataDatabase, DataRole
from trace_core.database.state import StateDatabase
from trace_core.egress.gateway import EgressGateway
from trace_core.egress.model import read_upstreams
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.errors import Invalid, Unavailable
from trace_core.kernel.ids import Ids
from trace_core.operators.catalog import load_catalog
from trace_core.ports.arrivals import Arrivals
from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import CredentialIssuer
from trace_core.ports.key_source import KeySource
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Queue
from trace_core.ports.row_store import RowStore
from trace_core.ports.secret_store import SecretStore
from trace_core.ports.spark_runner import SparkRunner
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.ports.token_signer import TokenSigner
from trace_core.ports.waker import Function, Waker
from trace_core.settings import Profile, Settings
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.logs import AttemptLogs
from trace_core.worker.rows import rows_for_tasks
from trace_core.worker.runner import Runner
from trace_core.worker.supervision import Supervisor

T = TypeVar("T")
CHILDREN = 2


class Parts:
    """The parts of one profile. Those given by name take the place of those built here."""

    def __init__(self, settings: Settings, **parts: Any) -> None:
        unknown = [
            name for name in parts if not isinstance(getattr(type(self), name, None), property)
        ]
        if unknown:
            raise TypeError(f"there is no part named {', '.join(unknown)}")
        self.settings = settings
        self.home = Home(settings.home)
        self.lock = threading.RLock()
        self.parts: dict[str, Any] = dict(parts)
        self._given = frozenset(parts)
        self._adapters = self._choose_adapters()

    def _choose_adapters(self) -> Adapters:
        if self.settings.profile is Profile.LITE:
            return LiteAdapters(self)
        from trace_core.bootstrap.aws_profile import AwsAdapters

        return AwsAdapters(self)

    def _part(self, name: str, build: Callable[[], T]) -> T:
        """A part that is built at its first use, by one thread, and kept."""
        if name not in self.parts:
            with self.lock:
                if name not in self.parts:
                    self.parts[name] = build()
        part: T = self.parts[name]
        return part

    @property
    def clock(self) -> Clock:
        return self._part("clock", SystemClock)

    @property
    def ids(self) -> Ids:
        return self._part("ids", lambda: Ids(self.clock.now, secrets.randbits))

    @property
    def jitter(self) -> Jitter:
        return self._part("jitter", lambda: random.random)

    @property
    def state_dsn(self) -> str:
        return self._part("state_dsn", self._build_state_dsn)

    def _build_state_dsn(self) -> str:
        return self.state.dsn if "state" in self._given else self._adapters.state_dsn()

    @property
    def state(self) -> StateDatabase:
        return self._part("state", self._adapters.state)

    @property
    def data_dsn(self) -> str:
        return self._part("data_dsn", self._build_data_dsn)

    def _build_data_dsn(self) -> str:
        return self.data.dsn if "data" in self._given else self._adapters.data_dsn()

    @property
    def data(self) -> DataDatabase:
        """As whoever may take the role of the owner: for deploys, purges and migrations."""
        return self._part("data", lambda: self._adapters.data(None))

    @property
    def data_writer(self) -> DataDatabase:
        """For whoever runs operators, and for the sweep of what they wrote."""
        return self._part("data_writer", lambda: self._adapters.data(DataRole.WRITER))

    @property
    def data_reader(self) -> DataDatabase:
        return self._part("data_reader", lambda: self._adapters.data(DataRole.READER))

    @property
    def queue(self) -> Queue:
        return self._part("queue", self._adapters.queue)

    @property
    def arrivals(self) -> Arrivals:
        return self._part("arrivals", self._adapters.arrivals)

    @property
    def waker(self) -> Waker:
        return self._part("waker", self._adapters.waker)

    @property
    def objects(self) -> ObjectStore:
        return self._part("objects", self._adapters.objects)

    @property
    def row_store(self) -> RowStore:
        """What rows of tasks are read and written with."""
        return self._part("row_store", self._build_row_store)

    def _build_row_store(self) -> RowStore:
        # With the first rows, not with the process: Arrow takes its time to load.
        from trace_core.storage.task_rows import TaskRows

        return TaskRows(self.objects, lambda: self.data_writer, self.clock)

    @property
    def secrets(self) -> SecretStore:
        return self._part("secrets", self._adapters.secrets)

    @property
    def signer(self) -> TokenSigner:
        return self._part("signer", self._adapters.signer)

    @property
    def development_issuer(self) -> DevelopmentIssuer:
        """Where no other issuer is set, on one machine, and nowhere else."""
        if self.settings.oidc_issuer is not None or self.settings.profile is not Profile.LITE:
            raise Invalid("Users have an issuer of their own (TRACE_OIDC_ISSUER): ask it.")
        return self._part("development_issuer", self._build_development_issuer)

    def _build_development_issuer(self) -> DevelopmentIssuer:
        signer = KeyFileSigner(self.home.keys / "issuer.pem")
        address, audience = self.settings.issuer_address, self.settings.oidc_audience
        return DevelopmentIssuer(signer, self.clock, address, audience)

    @property
    def user_keys(self) -> KeySource:
        return self._part("user_keys", self._build_user_keys)

    def _build_user_keys(self) -> KeySource:
        if self.settings.oidc_issuer is not None:
            return OidcKeySource(self.settings.oidc_issuer, self.settings.oidc_jwks_url)
        return self.development_issuer

    @property
    def catalog(self) -> Catalog:
        return self._part("catalog", lambda: load_catalog(self.settings.operator_modules))

    @property
    def lambda_pool(self) -> ChildPool:
        return self._part("lambda_pool", lambda: self.child_pool(CHILDREN))

    @property
    def worker_pool(self) -> ChildPool:
        return self._part("worker_pool", lambda: self.child_pool(self.settings.worker_children))

    @property
    def egress(self) -> EgressGateway:
        return self._part("egress", self._build_egress)

    def _build_egress(self) -> EgressGateway:
        given = self.settings.upstreams
        upstreams = read_upstreams(given.get_secret_value() if given else None)
        return EgressGateway(upstreams, jitter=self.jitter, now=self.clock.now)

    @property
    def task_client(self) -> HttpClient:
        return self._part("task_client", lambda: HttpClient(self.settings.task_address))

    @property
    def task_runtime(self) -> TaskRuntime:
        return self._part("task_runtime", self._adapters.task_runtime)

    @property
    def spark_runner(self) -> SparkRunner:
        return self._part("spark_runner", self._adapters.spark_runner)

    @property
    def spark_concurrency(self) -> int | None:
        return self._adapters.spark_concurrency()

    def object_address(self, key: str) -> str:
        """Where a Spark run finds the object with that key."""
        return self._adapters.object_address(key)

    @property
    def credential_issuer(self) -> CredentialIssuer:
        return self._part("credential_issuer", self._adapters.credential_issuer)

    def local_runtime(self) -> TaskRuntime:
        """Child processes of this one, which the profile `lite` has for functions."""
        pool, api = self.lambda_pool, TaskApi(self.task_client)
        supervisor = Supervisor(
            pool,
            clock=self.clock,
            secrets=self.secrets,
            logs=AttemptLogs(self.objects),
            rows=rows_for_tasks(api, lambda: self.row_store),
            egress=self.egress,
        )
        runner = Runner(
            api,
            supervisor,
            new_runner_id=lambda: f"process-{self.ids.uuid()}",
        )
        return ProcessRuntime(
            runner,
            concurrency=pool.size,
            # Whatever waits for room was put back into the outbox: the relay looks again.
            when_free=lambda: self.waker.wake(Function.OUTBOX_RELAY),
        )

    def child_pool(self, size: int) -> ChildPool:
        return ChildPool(
            size,
            modules=self.settings.operator_modules,
            task_api=self.settings.task_address,
            scratch_root=self.home.scratch,
        )

    def migrate(self) -> list[str]:
        """Bring both databases to this release; answers the names of what was applied."""
        now = self.clock.now()
        with _reaching("state"):
            applied = schema.migrate(self.state_dsn, now)
        with _reaching("data"):
            self._adapters.make_data_database()
            of_data = schema.migrate(self.data_dsn, now, "data")
        return [
            *(f"{each.number:04}_{each.name}" for each in applied),
            *(f"data/{each.number:04}_{each.name}" for each in of_data),
        ]

    def migrations(self) -> list[tuple[schema.Which, schema.MigrationStatus]]:
        with _reaching("state"):
            of_state = schema.status(self.state_dsn)
        with _reaching("data"):
            self._adapters.make_data_database()
            of_data = schema.status(self.data_dsn, "data")
        return [*(("state", each) for each in of_state), *(("data", each) for each in of_data)]

    def end_waits(self) -> None:
        """Let requests that wait for arrivals end now, before whoever serves them stops."""
        with self.lock:
            if "arrivals" in self.parts and "arrivals" not in self._given:
                self.parts["arrivals"].close()

    def close(self) -> None:
        """Close what was built here, in the order in which nothing is missed."""
        with self.lock:
            self.end_waits()
            for name in (
                *("task_runtime", "lambda_pool", "worker_pool", "egress", "task_client"),
                "spark_runner",
                *("queue", "data", "data_writer", "data_reader", "state"),
            ):
                if name in self.parts and name not in self._given:
                    self.parts[name].close()
            self.parts.clear()
            self._adapters.close()


@contextmanager
def _reaching(database: schema.Which) -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise Unavailable(f"The {database} database does not answer.") from error
