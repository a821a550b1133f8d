"""Push on one machine: Postgres tells the listening processes that there is work."""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import sql

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.ports.waker import Function

_STATEMENTS = Statements("trace_core.adapters.lite", "notify.sql")
_RECONNECT_SECONDS = 0.5
_GAP = timedelta(milliseconds=5)
_logger = logging.getLogger(__name__)


def _channel(function: Function) -> str:
    return f"trace_{function.value}"


class NotifyWaker:
    """Wakes a function wherever a `NotifyListener` waits for it.

    A caller in a hurry pays for one round trip in each gap, not in each call: a wake-up right after
    another one follows when the gap is over, on a thread of its own, and stands for all in between.
    """

    def __init__(self, database: StateDatabase, gap: timedelta = _GAP) -> None:
        self._database = database
        self._gap = gap.total_seconds()
        self._lock = threading.Lock()
        self._told_at: dict[Function, float] = {}
        self._following: set[Function] = set()

    def wake(self, function: Function) -> None:
        with self._lock:
            if function in self._following:
                return
            now = time.monotonic()
            wait = self._told_at.get(function, -self._gap) + self._gap - now
            if wait <= 0:
                self._told_at[function] = now
            else:
                self._following.add(function)
        if wait <= 0:
            self._tell(function)
            return
        follower = threading.Timer(wait, self._follow, [function])
        follower.daemon = True
        follower.start()

    def _follow(self, function: Function) -> None:
        with self._lock:
            self._following.discard(function)
            self._told_at[function] = time.monotonic()
        self._tell(function)

    def _tell(self, function: Function) -> None:
        try:
            with self._database.connection() as connection:
                connection.execute(
                    _STATEMENTS["notify"], {"channel": _channel(function), "payload": ""}
                )
        except Exception:
            # A lost push costs latency, never work: the schedule finds what it left behind.
            if not self._database.closed:
                _logger.warning("could not wake %s", function.value, exc_info=True)


class NotifyListener:
    """Waits for wake-ups of one function; those that come while nobody waits count as one."""

    def __init__(self, dsn: str, function: Function) -> None:
        self._woken = threading.Event()
        self._channel = ChannelListener(dsn, _channel(function), lambda _payload: self._woken.set())
        self._channel.start()

    def wait(self, timeout: timedelta) -> bool:
        """Whether there may be work: a wake-up came, or one may have been missed."""
        woken = self._woken.wait(timeout.total_seconds())
        self._woken.clear()
        return woken

    def close(self) -> None:
        self._channel.close()


class ChannelListener:
    """A thread with a connection of its own that hears one channel until it is closed.

    `heard` gets each payload, and None after every connect: what was told before is unknown then,
    so its user looks for itself. The thread sleeps in between; it never polls.
    """

    def __init__(self, dsn: str, channel: str, heard: Callable[[str | None], None]) -> None:
        self._dsn = dsn
        self._statement = sql.SQL(_STATEMENTS["listen"]).format(channel=sql.Identifier(channel))
        self._heard = heard
        self._closed = threading.Event()
        self._closing, self._close = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"listen-{channel}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        os.write(self._close, b"x")
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._close)
        os.close(self._closing)

    def _run(self) -> None:
        lost = False
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(self._statement)
                    lost = False
                    self._heard(None)
                    self._hear(connection)
            except psycopg.Error as error:
                if not lost:
                    _logger.warning("the connection that listens for wake-ups is lost: %s", error)
                lost = True
                self._closed.wait(_RECONNECT_SECONDS)

    def _hear(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._closing, selectors.EVENT_READ)
            while not self._closed.is_set():
                for notification in connection.notifies(timeout=0):
                    self._heard(notification.payload)
                selector.select()
