"""The one place that wires rooms, adapters and profile together.

Everything is built when it is first asked for. Tests and simulations pass their own parts through
the same door.
"""

from __future__ import annotations

import hmac
import random
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.adapters.lite.file_secrets import FileSecretStore
from trace_core.adapters.lite.home import Home, SharedPostgres
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.notify import NotifyWaker
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.adapters.lite.processes import ProcessRuntime
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.dag.catalog import Catalog
from trace_core.dag.model import Runtime
from trace_core.database import migrate
from trace_core.database.state import StateDatabase
from trace_core.deploy.service import Deploys
from trace_core.dispatcher.control import Control
from trace_core.dispatcher.service import Dispatcher
from trace_core.http.auth import Authenticator, RememberedWorkers
from trace_core.http.principal import Kind, Principal
from trace_core.identity.capability_token import CapabilityTokens, InputPin, TaskGrant
from trace_core.identity.orgs import Orgs
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.errors import Invalid, Unauthenticated, Unavailable
from trace_core.kernel.ids import DatasetVersion, Ids, LeaseToken, OrgId
from trace_core.operators.catalog import load_catalog
from trace_core.outbox.relay import Relay, send_wakeups
from trace_core.outbox.store import Outbox, OutboxRow
from trace_core.ports.clock import Clock
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Queue
from trace_core.ports.secret_store import SecretStore
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.ports.token_signer import TokenSigner
from trace_core.ports.waker import Function, Waker
from trace_core.settings import Profile, Settings
from trace_core.tasks.admin import TaskAdmin
from trace_core.tasks.claim import Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.events import EventAcceptance
from trace_core.tasks.invoke import invoke_ready
from trace_core.tasks.leases import Leases
from trace_core.tasks.model import Fence
from trace_core.tasks.payload import Payloads, TokenRequest
from trace_core.tasks.reaper import Reaper
from trace_core.tasks.views import Views
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.logs import AttemptLogs
from trace_core.worker.runner import Runner
from trace_core.worker.supervision import Supervisor

T = TypeVar("T")
ISSUER = "trace"
CHILDREN = 2
CONNECTIONS = 16
"""Of the lite profile, where one process serves three APIs and runs all functions."""


class App:
    """All services of one process. `parts` given by name take the place of those built here."""

    def __init__(self, settings: Settings, **parts: Any) -> None:
        unknown = [name for name in parts if not isinstance(getattr(App, name, None), property)]
        if unknown:
            raise TypeError(f"there is no part named {', '.join(unknown)}")
        if settings.profile is not Profile.LITE:
            raise Invalid("This build has the adapters of the lite profile only.")
        self.settings = settings
        self.home = Home(settings.home)
        self.lock = threading.RLock()
        self.parts: dict[str, Any] = dict(parts)
        self._given = frozenset(parts)
        self._postgres: SharedPostgres | None = None

    def _part(self, name: str, build: Callable[[], T]) -> T:
        """A part that is built at its first use, by one thread, and kept."""
        if name not in self.parts:
            with self.lock:
                if name not in self.parts:
                    self.parts[name] = build()
        part: T = self.parts[name]
        return part

    # From outside ----------------------------------------------------------------------------

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
        if "state" in self._given:
            return self.state.dsn
        if self.settings.state_dsn is not None:
            return self.settings.state_dsn.get_secret_value()
        self._postgres = self.home.postgres()
        return self._postgres.acquire()

    @property
    def state(self) -> StateDatabase:
        return self._part("state", lambda: StateDatabase(self.state_dsn, size=CONNECTIONS))

    @property
    def queue(self) -> Queue:
        return self._part("queue", lambda: PgQueue(self.state, self.clock, self.ids))

    @property
    def waker(self) -> Waker:
        return self._part("waker", lambda: NotifyWaker(self.state))

    @property
    def objects(self) -> ObjectStore:
        return self._part("objects", lambda: FileObjectStore(self.home.objects))

    @property
    def secrets(self) -> SecretStore:
        return self._part("secrets", lambda: FileSecretStore(self.home.secrets))

    @property
    def signer(self) -> TokenSigner:
        return self._part("signer", lambda: KeyFileSigner(self.home.keys / "task.pem"))

    @property
    def catalog(self) -> Catalog:
        return self._part("catalog", lambda: load_catalog(self.settings.operator_modules))

    @property
    def lambda_pool(self) -> ChildPool:
        return self._part("lambda_pool", lambda: self.child_pool(CHILDREN))

    @property
    def task_runtime(self) -> TaskRuntime:
        return self._part("task_runtime", self._build_task_runtime)

    def _build_task_runtime(self) -> TaskRuntime:
        pool = self.lambda_pool
        supervisor = Supervisor(
            pool, clock=self.clock, secrets=self.secrets, logs=AttemptLogs(self.objects)
        )
        runner = Runner(
            TaskApi(HttpClient(self.settings.task_address)),
            supervisor,
            new_runner_id=lambda: f"process-{self.ids.uuid()}",
        )
        return ProcessRuntime(runner, concurrency=pool.size)

    def child_pool(self, size: int) -> ChildPool:
        return ChildPool(
            size,
            modules=self.settings.operator_modules,
            task_api=self.settings.task_address,
            scratch_root=self.home.scratch,
        )

    # Services --------------------------------------------------------------------------------

    @property
    def orgs(self) -> Orgs:
        return self._part("orgs", lambda: Orgs(self.state, self.clock, self.ids))

    @property
    def tokens(self) -> CapabilityTokens:
        return self._part("tokens", lambda: CapabilityTokens(self.signer, self.clock, ISSUER))

    @property
    def claims(self) -> Claims:
        return self._part("claims", lambda: Claims(self.state, self.clock, self.ids))

    @property
    def payloads(self) -> Payloads:
        return self._part("payloads", lambda: Payloads(self.state, self.clock, self._issue))

    @property
    def leases(self) -> Leases:
        return self._part("leases", lambda: Leases(self.state, self.clock))

    @property
    def events(self) -> EventAcceptance:
        return self._part("events", self._build_events)

    def _build_events(self) -> EventAcceptance:
        return EventAcceptance(self.state, self.clock, self.ids, self.waker)

    @property
    def completions(self) -> Completions:
        return self._part("completions", self._build_completions)

    def _build_completions(self) -> Completions:
        return Completions(self.state, self.clock, self.ids, self.waker, self.jitter)

    @property
    def reaper(self) -> Reaper:
        return self._part("reaper", self._build_reaper)

    def _build_reaper(self) -> Reaper:
        return Reaper(self.state, self.clock, self.ids, self.waker, self.jitter)

    @property
    def task_admin(self) -> TaskAdmin:
        return self._part("task_admin", self._build_task_admin)

    def _build_task_admin(self) -> TaskAdmin:
        return TaskAdmin(self.state, self.clock, self.ids, self.waker)

    @property
    def views(self) -> Views:
        return self._part("views", lambda: Views(self.state, self.clock))

    @property
    def deploys(self) -> Deploys:
        return self._part("deploys", self._build_deploys)

    def _build_deploys(self) -> Deploys:
        return Deploys(self.state, self.clock, self.ids, self.waker, self.catalog)

    @property
    def authenticator(self) -> Authenticator:
        return self._part("authenticator", self._build_authenticator)

    def _build_authenticator(self) -> Authenticator:
        return Authenticator(
            {
                Kind.WORKER: RememberedWorkers(self.orgs.org_of_worker_token),
                Kind.TASK: self._task,
                Kind.USER: self._local_user,
            }
        )

    @property
    def relay(self) -> Relay:
        return self._part("relay", self._build_relay)

    def _build_relay(self) -> Relay:
        sends = {
            Runtime.WORKER.value: send_wakeups(self.queue, Runtime.WORKER.value),
            Runtime.LAMBDA.value: invoke_ready(self.claims, self.payloads, self.task_runtime),
            Runtime.DISPATCHER.value: self._wake_dispatcher,
        }
        return Relay(Outbox(self.state, self.jitter), self.clock, sends)

    def _wake_dispatcher(self, _org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        self.waker.wake(Function.DISPATCHER)

    @property
    def dispatcher(self) -> Dispatcher:
        return self._part("dispatcher", self._build_dispatcher)

    def _build_dispatcher(self) -> Dispatcher:
        control = Control(
            self.state, self.clock, self.claims, self.completions, self.payloads, self.catalog
        )
        return Dispatcher(self.state, self.clock, self.ids, self.waker, control)

    # Local identity --------------------------------------------------------------------------

    @property
    def local_user(self) -> Principal:
        """The person at this machine: an administrator of the one org."""
        return self._part("local_user", self._build_local_user)

    def _build_local_user(self) -> Principal:
        org_id = self.orgs.ensure_org(self.settings.org)
        user_id = self.orgs.ensure_member(org_id, f"local:{self.settings.org}", "admin")
        return Principal(org_id, user_id, Kind.USER)

    @property
    def user_token(self) -> str:
        return self._part("user_token", lambda: self.home.token("user"))

    @property
    def worker_token(self) -> str:
        """The token of this machine's workers, registered for the one org."""
        return self._part("worker_token", self._build_worker_token)

    def _build_worker_token(self) -> str:
        token = self.home.token("worker")
        self.orgs.add_worker_token(self.local_user.org_id, "local", token)
        return token

    def _local_user(self, token: str) -> Principal:
        if not hmac.compare_digest(token.encode(), self.user_token.encode()):
            raise Unauthenticated
        return self.local_user

    def _task(self, token: str) -> Principal:
        grant = self.tokens.verify(token)
        fence = Fence(grant.task_id, grant.attempt, grant.lease_token)
        return Principal(grant.org_id, None, Kind.TASK, fence)

    def _issue(self, request: TokenRequest) -> str:
        """The grant of one attempt; inputs are read as of their version until pins exist."""
        return self.tokens.issue(
            TaskGrant(
                request.org_id,
                request.task_id,
                request.attempt,
                LeaseToken(request.lease_token),
                request.job_id,
                tuple(InputPin(DatasetVersion(each), 0) for each in request.input_versions),
                (),
                request.write_prefixes,
                (self.clock.now() + request.lifetime).replace(microsecond=0),
            )
        )

    # Life ------------------------------------------------------------------------------------

    def migrate(self) -> list[migrate.Migration]:
        with _reaching_state():
            return migrate.migrate(self.state_dsn, self.clock.now())

    def migrations(self) -> list[migrate.MigrationStatus]:
        with _reaching_state():
            return migrate.status(self.state_dsn)

    def close(self) -> None:
        """Close what was built here, in the order in which nothing is missed."""
        with self.lock:
            for name in ("task_runtime", "lambda_pool", "queue", "state"):
                if name in self.parts and name not in self._given:
                    self.parts[name].close()
            self.parts.clear()
            if self._postgres is not None:
                self._postgres.release()
                self._postgres = None


@contextmanager
def _reaching_state() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise Unavailable("The state database does not answer.") from error


_lock = threading.Lock()
_app: App | None = None


def app() -> App:
    """The app of this process, built from the environment at the first call."""
    global _app
    with _lock:
        if _app is None:
            _app = App(Settings.from_env())
        return _app


@contextmanager
def using(own: App) -> Iterator[App]:
    """Let the handlers of this process use that app."""
    global _app
    with _lock:
        before, _app = _app, own
    try:
        yield own
    finally:
        with _lock:
            _app = before


@contextmanager
def running(own: App) -> Iterator[App]:
    """As `using`, and close the app at the end."""
    try:
        with using(own):
            yield own
    finally:
        own.close()
