"""The adapters of each port. A new adapter joins its suite by a row in one of these tables."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pytest

from tests.conformance import aws_adapters
from tests.conformance.harness import (
    ArrivalsHarness,
    ClockHarness,
    CredentialsHarness,
    KeySourceHarness,
    ObjectStoreHarness,
    QueueHarness,
    SecretStoreHarness,
    TokenSignerHarness,
    WakerHarness,
)
from tests.conformance.spark_runs import RunPlace, SparkRunnerHarness
from tests.dataset_layouts import Layouts
from tests.manual_clock import ManualClock
from tests.postgres_server import PostgresServer
from trace_core.adapters.lite.arrivals import QueueArrivals
from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.adapters.lite.file_secrets import FileSecretStore
from trace_core.adapters.lite.folder_credentials import FolderCredentialIssuer
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.local_spark import LocalSparkRunner
from trace_core.adapters.lite.notify import NotifyListener, NotifyWaker
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.adapters.no_arrivals import NoArrivals
from trace_core.adapters.oidc_keys import OidcKeySource
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids
from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import Credentials
from trace_core.ports.waker import Function
from trace_core.storage.model import Backend

Harness = TypeVar("Harness")
Adapter = Callable[[pytest.FixtureRequest], Iterator[Harness]]


def _pgqueue(
    request: pytest.FixtureRequest, clock: Clock, let_pass: Callable[[timedelta], None]
) -> Iterator[QueueHarness]:
    database: StateDatabase = request.getfixturevalue("state_database")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    ids = Ids(clock.now, random.Random(1).getrandbits)  # noqa: S311
    queue = PgQueue(database, clock, ids, max_receives=3)
    yield QueueHarness(
        queue=queue,
        name="conformance",
        other_name="conformance-other",
        max_receives=3,
        visibility=timedelta(milliseconds=120),
        let_pass=let_pass,
        wakes_within=timedelta(milliseconds=700),
        patience=timedelta(seconds=5),
        outage=lambda: server.outage(database.dsn),
    )
    queue.close()


def _pgqueue_on_manual_clock(request: pytest.FixtureRequest) -> Iterator[QueueHarness]:
    clock = ManualClock()

    def let_pass(by: timedelta) -> None:
        clock.advance(by)

    yield from _pgqueue(request, clock, let_pass)


def _pgqueue_on_system_clock(request: pytest.FixtureRequest) -> Iterator[QueueHarness]:
    yield from _pgqueue(request, SystemClock(), _sleep)


def _file_objects(request: pytest.FixtureRequest) -> Iterator[ObjectStoreHarness]:
    root: Path = request.getfixturevalue("tmp_path") / "objects"

    def fetch(url: str) -> bytes:
        parts = urlsplit(url)
        assert parts.scheme == "file"
        return Path(unquote(parts.path)).read_bytes()

    yield ObjectStoreHarness(FileObjectStore(root), lambda: FileObjectStore(root), fetch)


def _file_secrets(request: pytest.FixtureRequest) -> Iterator[SecretStoreHarness]:
    folder: Path = request.getfixturevalue("tmp_path") / "secrets"
    yield SecretStoreHarness(FileSecretStore(folder), lambda: FileSecretStore(folder))


def _key_file(request: pytest.FixtureRequest) -> Iterator[TokenSignerHarness]:
    path: Path = request.getfixturevalue("tmp_path") / "keys" / "task.pem"
    signer = KeyFileSigner(path)
    yield TokenSignerHarness(signer, lambda: KeyFileSigner(path), signer.rotate)


def _folder_credentials(request: pytest.FixtureRequest) -> Iterator[CredentialsHarness]:
    root: Path = request.getfixturevalue("tmp_path") / "objects"

    def read(found: Credentials, key: str) -> bytes:
        return Path(unquote(urlsplit(found.root).path), key).read_bytes()

    issuer = FolderCredentialIssuer(root, SystemClock())
    yield CredentialsHarness(issuer, FileObjectStore(root), read)


def _development_issuer(request: pytest.FixtureRequest) -> Iterator[KeySourceHarness]:
    signer = KeyFileSigner(request.getfixturevalue("tmp_path") / "issuer.pem")
    issuer = DevelopmentIssuer(signer, SystemClock(), "http://127.0.0.1:1", "trace")
    yield KeySourceHarness(issuer, signer.sign, signer.rotate)


def _oidc(request: pytest.FixtureRequest) -> Iterator[KeySourceHarness]:
    signer = KeyFileSigner(request.getfixturevalue("tmp_path") / "issuer.pem")
    server = LocalServer("issuer", lambda *given: issuer.handler(*given), 0)
    issuer = DevelopmentIssuer(signer, SystemClock(), server.url, "trace")
    server.start()
    yield KeySourceHarness(OidcKeySource(server.url), signer.sign, signer.rotate)
    server.stop()


def _system_clock(_request: pytest.FixtureRequest) -> Iterator[ClockHarness]:
    yield ClockHarness(SystemClock(), _sleep)


def _manual_clock(_request: pytest.FixtureRequest) -> Iterator[ClockHarness]:
    clock = ManualClock()

    def let_pass(by: timedelta) -> None:
        clock.advance(by)

    yield ClockHarness(clock, let_pass)


def _notify(request: pytest.FixtureRequest) -> Iterator[WakerHarness]:
    database: StateDatabase = request.getfixturevalue("state_database")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    listeners = {function: NotifyListener(database.dsn, function) for function in Function}
    for listener in listeners.values():
        # A listener reports once that it may have missed something before it was there.
        assert listener.wait(timedelta(seconds=5))
    yield WakerHarness(
        waker=NotifyWaker(database),
        was_woken=lambda function, timeout: listeners[function].wait(timeout),
        outage=lambda: server.outage(database.dsn),
        patience=timedelta(seconds=5),
    )
    for listener in listeners.values():
        listener.close()


def _queue_arrivals(request: pytest.FixtureRequest) -> Iterator[ArrivalsHarness]:
    database: StateDatabase = request.getfixturevalue("state_database")
    clock = SystemClock()
    queue = PgQueue(database, clock, Ids(clock.now, random.Random(1).getrandbits))  # noqa: S311
    arrivals = QueueArrivals(database.dsn)
    yield ArrivalsHarness(arrivals, lambda name: queue.send(name, [{}]))
    arrivals.close()
    queue.close()


def _no_arrivals(_request: pytest.FixtureRequest) -> Iterator[ArrivalsHarness]:
    yield ArrivalsHarness(NoArrivals(), lambda _name: None)


def _local_spark(request: pytest.FixtureRequest) -> Iterator[SparkRunnerHarness]:
    runner: LocalSparkRunner = request.getfixturevalue("local_spark")
    yield SparkRunnerHarness(
        runner,
        # Beside the first one, which keeps the runner: this one only looks.
        another=lambda: closing(LocalSparkRunner(runner.folder)),
        place=RunPlace(request.getfixturevalue("tmp_path"), "local"),
    )


def _layouts(
    request: pytest.FixtureRequest, objects: Adapter[ObjectStoreHarness], backend: Backend
) -> Iterator[Layouts]:
    for found in objects(request):
        yield Layouts(
            found.store,
            request.getfixturevalue("data_database"),
            request.getfixturevalue("manual_clock"),
            request.getfixturevalue("ids"),
            backend,
        )


def _objects_in_files(request: pytest.FixtureRequest) -> Iterator[Layouts]:
    yield from _layouts(request, _file_objects, Backend.S3)


def _objects_on_s3(request: pytest.FixtureRequest) -> Iterator[Layouts]:
    yield from _layouts(request, aws_adapters.s3, Backend.S3)


def _tables(request: pytest.FixtureRequest) -> Iterator[Layouts]:
    yield from _layouts(request, _file_objects, Backend.POSTGRES)


def _sleep(by: timedelta) -> None:
    time.sleep(by.total_seconds())


QUEUES: dict[str, Adapter[QueueHarness]] = {
    "pgqueue": _pgqueue_on_manual_clock,
    "pgqueue_on_system_clock": _pgqueue_on_system_clock,
    "sqs": aws_adapters.sqs,
}
OBJECT_STORES: dict[str, Adapter[ObjectStoreHarness]] = {
    "files": _file_objects,
    "s3": aws_adapters.s3,
}
SECRET_STORES: dict[str, Adapter[SecretStoreHarness]] = {
    "files": _file_secrets,
    "secrets_manager": aws_adapters.secrets_manager,
}
TOKEN_SIGNERS: dict[str, Adapter[TokenSignerHarness]] = {
    "key_file": _key_file,
    "kms": aws_adapters.kms,
}
KEY_SOURCES: dict[str, Adapter[KeySourceHarness]] = {
    "development_issuer": _development_issuer,
    "oidc": _oidc,
}
CLOCKS: dict[str, Adapter[ClockHarness]] = {"system": _system_clock, "manual": _manual_clock}
WAKERS: dict[str, Adapter[WakerHarness]] = {"notify": _notify, "lambda": aws_adapters.waker}
ARRIVALS: dict[str, Adapter[ArrivalsHarness]] = {"pgqueue": _queue_arrivals, "none": _no_arrivals}
CREDENTIAL_ISSUERS: dict[str, Adapter[CredentialsHarness]] = {
    "folder": _folder_credentials,
    "sts": aws_adapters.credentials,
}
SPARK_RUNNERS: dict[str, Adapter[SparkRunnerHarness]] = {
    "local": _local_spark,
    "emr_serverless": aws_adapters.emr_serverless,
}

LAYOUTS: dict[str, Adapter[Layouts]] = {
    "postgres": _tables,
    "files": _objects_in_files,
    "s3": _objects_on_s3,
}


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkRunner]:
    """One warm runner for all tests of this process."""
    with closing(LocalSparkRunner(tmp_path_factory.mktemp("spark"))) as runner:
        yield runner


@pytest.fixture(params=SPARK_RUNNERS)
def spark_runners(request: pytest.FixtureRequest) -> Iterator[SparkRunnerHarness]:
    for harness in SPARK_RUNNERS[request.param](request):
        yield harness
        harness.end_all()


@pytest.fixture(params=LAYOUTS)
def layouts(request: pytest.FixtureRequest) -> Iterator[Layouts]:
    yield from LAYOUTS[request.param](request)


@pytest.fixture(params=QUEUES)
def queues(request: pytest.FixtureRequest) -> Iterator[QueueHarness]:
    yield from QUEUES[request.param](request)


@pytest.fixture(params=OBJECT_STORES)
def objects(request: pytest.FixtureRequest) -> Iterator[ObjectStoreHarness]:
    yield from OBJECT_STORES[request.param](request)


@pytest.fixture(params=SECRET_STORES)
def secret_stores(request: pytest.FixtureRequest) -> Iterator[SecretStoreHarness]:
    yield from SECRET_STORES[request.param](request)


@pytest.fixture(params=TOKEN_SIGNERS)
def signers(request: pytest.FixtureRequest) -> Iterator[TokenSignerHarness]:
    yield from TOKEN_SIGNERS[request.param](request)


@pytest.fixture(params=KEY_SOURCES)
def key_sources(request: pytest.FixtureRequest) -> Iterator[KeySourceHarness]:
    yield from KEY_SOURCES[request.param](request)


@pytest.fixture(params=CLOCKS)
def clocks(request: pytest.FixtureRequest) -> Iterator[ClockHarness]:
    yield from CLOCKS[request.param](request)


@pytest.fixture(params=WAKERS)
def wakers(request: pytest.FixtureRequest) -> Iterator[WakerHarness]:
    yield from WAKERS[request.param](request)


@pytest.fixture(params=CREDENTIAL_ISSUERS)
def issuers(request: pytest.FixtureRequest) -> Iterator[CredentialsHarness]:
    yield from CREDENTIAL_ISSUERS[request.param](request)


@pytest.fixture(params=ARRIVALS)
def arrivals(request: pytest.FixtureRequest) -> Iterator[ArrivalsHarness]:
    yield from ARRIVALS[request.param](request)
