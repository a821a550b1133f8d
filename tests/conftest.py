"""What every test may ask for: a database of its own, a clock and ids under its control."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests import network_guard
from tests.manual_clock import ManualClock
from tests.postgres_server import PostgresServer
from trace_core.database.data import DataDatabase
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids

pytest_plugins = ["tests.localstack_server"]


def pytest_configure() -> None:
    network_guard.install()


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """Fail a test that tried to leave this machine, even if its code swallowed the refusal."""
    network_guard.tried()
    yield
    tried = network_guard.tried()
    if tried:
        pytest.fail(f"the test tried to leave this machine: {', '.join(tried)}", pytrace=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.acquire()
    yield server
    server.release()


@pytest.fixture
def state_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a migrated state database that no other test sees."""
    dsn = postgres_server.clone()
    yield dsn
    postgres_server.drop(dsn)


@pytest.fixture
def empty_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database without any table."""
    dsn = postgres_server.empty()
    yield dsn
    postgres_server.drop(dsn)


@pytest.fixture
def state_database(state_dsn: str) -> Iterator[StateDatabase]:
    database = StateDatabase(state_dsn)
    yield database
    database.close()


@pytest.fixture
def data_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a migrated data database that no other test sees."""
    dsn = postgres_server.clone("data")
    yield dsn
    postgres_server.drop(dsn)


@pytest.fixture
def data_database(data_dsn: str) -> Iterator[DataDatabase]:
    database = DataDatabase(data_dsn)
    yield database
    database.close()


@pytest.fixture
def manual_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ids(manual_clock: ManualClock) -> Ids:
    """Ids that are the same in every run."""
    return Ids(manual_clock.now, random.Random(20260115).getrandbits)  # noqa: S311
