"""Push over Postgres: heard after a restart, counted once, never an error."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer, fastest_folder
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.adapters.lite.notify import NotifyListener, NotifyWaker
from trace_core.database.state import StateDatabase
from trace_core.ports.waker import Function

SOON = timedelta(seconds=5)
NOW = timedelta(0)
RELAY = Function.OUTBOX_RELAY


@pytest.fixture
def listener(state_dsn: str) -> Iterator[NotifyListener]:
    listener = NotifyListener(state_dsn, RELAY)
    assert listener.wait(SOON), "what happened before it listened is unknown, so it says so once"
    yield listener
    listener.close()


def test_wake_ups_that_came_together_are_one(
    listener: NotifyListener, state_database: StateDatabase
) -> None:
    waker = NotifyWaker(state_database)
    for _ in range(50):
        waker.wake(RELAY)
    assert listener.wait(SOON)
    time.sleep(0.2)
    listener.wait(NOW)
    assert not listener.wait(timedelta(milliseconds=50))


def test_wake_ups_in_a_hurry_follow_together_when_the_gap_is_over(
    listener: NotifyListener, state_database: StateDatabase
) -> None:
    waker = NotifyWaker(state_database, gap=timedelta(milliseconds=200))
    waker.wake(RELAY)
    assert listener.wait(SOON), "the first one goes at once"
    hurried_at = time.monotonic()
    for _ in range(20):
        waker.wake(RELAY)
    assert time.monotonic() - hurried_at < 0.1, "none of them pays for a round trip"
    assert listener.wait(SOON), "the last one is not lost"
    assert time.monotonic() - hurried_at > 0.1
    assert not listener.wait(timedelta(milliseconds=300)), "one stands for all of them"


def test_a_wake_up_that_follows_a_closed_database_is_silent(
    state_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = StateDatabase(state_dsn)
    waker = NotifyWaker(database, gap=timedelta(milliseconds=50))
    waker.wake(RELAY)
    waker.wake(RELAY)
    database.close()
    time.sleep(0.2)
    assert not caplog.records


def test_a_wake_up_before_the_wait_is_not_lost(
    listener: NotifyListener, state_database: StateDatabase
) -> None:
    NotifyWaker(state_database).wake(RELAY)
    time.sleep(0.1)
    assert listener.wait(NOW)


def test_a_wake_up_is_heard_within_milliseconds(
    listener: NotifyListener, state_database: StateDatabase
) -> None:
    waker = NotifyWaker(state_database)
    latencies = []
    for _ in range(10):
        started = time.monotonic()
        waker.wake(RELAY)
        assert listener.wait(SOON)
        latencies.append(time.monotonic() - started)
    assert min(latencies) < 0.02


def test_every_listener_hears(listener: NotifyListener, state_database: StateDatabase) -> None:
    second = NotifyListener(state_database.dsn, RELAY)
    try:
        assert second.wait(SOON)
        NotifyWaker(state_database).wake(RELAY)
        assert listener.wait(SOON)
        assert second.wait(SOON)
    finally:
        second.close()


def test_a_listener_that_lost_its_connection_says_so_and_hears_again(
    listener: NotifyListener, state_dsn: str, postgres_server: PostgresServer
) -> None:
    assert postgres_server.cut(state_dsn) == 1
    assert listener.wait(SOON), "something may have been missed"
    database = StateDatabase(state_dsn)
    NotifyWaker(database).wake(RELAY)
    assert listener.wait(SOON)
    database.close()


def test_a_listener_outlives_a_restart_of_the_server() -> None:
    folder = Path(tempfile.mkdtemp(prefix="trace-notify-", dir=fastest_folder()))
    server = EmbeddedPostgres(folder, durable=False)
    try:
        dsn = server.database("trace_state")
        listener = NotifyListener(dsn, RELAY)
        assert listener.wait(SOON)
        server.stop()
        assert not listener.wait(timedelta(milliseconds=100))
        server.start()
        assert listener.wait(SOON)
        listener.close()
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_a_listener_waits_for_a_server_that_is_not_there_yet() -> None:
    listener = NotifyListener("postgresql://postgres@/none?host=/nonexistent", RELAY)
    assert not listener.wait(timedelta(milliseconds=50))
    started = time.monotonic()
    listener.close()
    assert time.monotonic() - started < 2


def test_closing_is_quick_final_and_repeatable(state_dsn: str) -> None:
    listener = NotifyListener(state_dsn, RELAY)
    listener.wait(SOON)
    started = time.monotonic()
    listener.close()
    listener.close()
    assert time.monotonic() - started < 1
    assert not any(thread.name.startswith("listen-") for thread in threading.enumerate())


def test_a_waker_without_a_database_warns_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    database = StateDatabase("postgresql://postgres@/none?host=/nonexistent")
    with caplog.at_level(logging.WARNING):
        NotifyWaker(database).wake(RELAY)
    database.close()
    [record] = [record for record in caplog.records if record.name.endswith("lite.notify")]
    assert record.levelno == logging.WARNING
    assert "outbox_relay" in record.getMessage()
