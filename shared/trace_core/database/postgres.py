"""One Postgres database: a pool, single statements and short transactions.

A transaction is opened in a service and nowhere else. Each one has a name, and passes named
points before and after its commit, at which the simulation may crash it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import psycopg
from psycopg import Connection, Cursor
from psycopg.pq import ExecStatus
from psycopg.types.json import Jsonb

from trace_core.database.connections import Connections
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Unavailable

Params = Mapping[str, Any]
Row = Any
"""A named tuple whose fields are the statement's columns."""
as_json = Jsonb
"""Marks a parameter that goes into a jsonb column."""


def options(*settings: str) -> str:
    """Settings of a session, as an address takes them."""
    return " ".join(f"-c {setting}" for setting in settings)


def rows_of(cursor: Cursor[Row]) -> list[Row]:
    """The rows, if there can be any; asked of the result, which is cheaper than `description`."""
    return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def _command(connection: Connection[Row], command: bytes) -> None:
    result = connection.pgconn.exec_(command)
    if result.status != ExecStatus.COMMAND_OK:
        raise psycopg.OperationalError(result.get_error_message())
    if result.command_status != command:
        # A commit after a failed statement is a rollback, and says so.
        raise psycopg.InternalError(f"{command.decode()} became {result.command_status!r}")


@contextmanager
def in_transaction(connection: Connection[Row]) -> Iterator[None]:
    """As the driver's own, but a rollback forgets no prepared statement.

    The driver drops them all then, since one may be of a table that is gone with the rollback.
    What prepares statements here makes no tables, and planning them anew takes longer than
    running them.
    """
    _command(connection, b"BEGIN")
    try:
        yield
    except BaseException:
        # Whoever lost the connection has the better story to tell.
        with suppress(psycopg.Error):
            _command(connection, b"ROLLBACK")
        raise
    _command(connection, b"COMMIT")


class Transaction:
    """What a service may do inside an open transaction."""

    def __init__(self, connection: Connection[Row]) -> None:
        self._connection = connection

    def all(self, sql: str, params: Params) -> list[Row]:
        return rows_of(self._connection.execute(sql, params, binary=True))

    def one(self, sql: str, params: Params) -> Row | None:
        rows = rows_of(self._connection.execute(sql, params, binary=True))
        return rows[0] if rows else None

    def run(self, sql: str, params: Params) -> int:
        """Execute; answers the number of rows changed."""
        return self._connection.execute(sql, params).rowcount


class Database:
    """Every access to one database goes through here."""

    name: ClassVar[str]
    """As people call it: `state` or `data`."""

    def __init__(
        self,
        dsn: str,
        *,
        size: int = 4,
        crash_points: CrashPoints = no_crash_points,
        refresh: Callable[[], str] | None = None,
    ) -> None:
        """`refresh` gives the address anew, for one whose password may change meanwhile."""
        self.dsn = dsn
        self.crash_points = crash_points
        self._refresh = refresh
        self._connections = Connections(self._connect, size, timeout=10, name=self.name)

    def _open(self, dsn: str) -> Connection[Row]:
        raise NotImplementedError

    def _connect(self) -> Connection[Row]:
        try:
            return self._open(self.dsn)
        except psycopg.OperationalError:
            fresh = self._refresh() if self._refresh is not None else self.dsn
            if fresh == self.dsn:
                raise
            self.dsn = fresh
            return self._open(fresh)

    def close(self) -> None:
        self._connections.close()

    @property
    def closed(self) -> bool:
        return self._connections.closed

    @contextmanager
    def connection(self) -> Iterator[Connection[Row]]:
        """One pooled connection; what psycopg raises for a lost server becomes `Unavailable`."""
        try:
            with self._connections.borrow() as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise Unavailable(f"The {self.name} database does not answer.") from error

    @contextmanager
    def _named(self, name: str) -> Iterator[Connection[Row]]:
        self.crash_points(f"{name}:begin")
        with self.connection() as connection, in_transaction(connection):
            yield connection
            self.crash_points(f"{name}:before_commit")
        self.crash_points(f"{name}:after_commit")

    def write(self, name: str, sql: str, params: Params) -> list[Row]:
        """One statement that is its own transaction: one round trip."""
        self.crash_points(f"{name}:before_commit")
        with self.connection() as connection:
            rows = rows_of(connection.execute(sql, params, binary=True))
        self.crash_points(f"{name}:after_commit")
        return rows

    def read(self, sql: str, params: Params) -> list[Row]:
        with self.connection() as connection:
            return connection.execute(sql, params, binary=True).fetchall()
