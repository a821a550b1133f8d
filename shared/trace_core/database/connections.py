"""A small pool: a connection is given out again at once, and replaced when it has broken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.pq import TransactionStatus

from trace_core.kernel.errors import Unavailable


class Connections:
    """At most `size` connections, opened when they are needed; the last one returned goes first."""

    def __init__(
        self, connect: Callable[[], Connection[Any]], size: int, timeout: float, name: str
    ) -> None:
        self._connect = connect
        self._timeout = timeout
        self._name = name
        self._free = threading.Semaphore(size)
        self._idle: list[Connection[Any]] = []
        self.closed = False

    @contextmanager
    def borrow(self) -> Iterator[Connection[Any]]:
        if self.closed:
            raise Unavailable(f"The connections to the {self._name} database are closed.")
        if not self._free.acquire(timeout=self._timeout):
            raise Unavailable(f"No connection to the {self._name} database is free.")
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _take(self) -> Connection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return self._connect()

    def _give_back(self, connection: Connection[Any]) -> None:
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        if idle and not self.closed:
            self._idle.append(connection)
        else:
            # Broken, or left in a state that the next borrower must not inherit. When one has
            # broken, the server was away, and the idle ones are broken too.
            broken = connection.closed
            connection.close()
            if broken:
                self._drop_idle()

    def close(self) -> None:
        self.closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
