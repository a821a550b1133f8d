"""The state database: a pool, single statements and short transactions.

A transaction is opened in a service and nowhere else. Each one has a name, and passes named
points before and after its commit, at which the simulation may crash it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection, Cursor
from psycopg.pq import ExecStatus
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from trace_core.database import arrays
from trace_core.database.connections import Connections
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Unavailable

Params = Mapping[str, Any]
Row = Any
"""A named tuple whose fields are the statement's columns."""
as_json = Jsonb
"""Marks a parameter that goes into a jsonb column."""

# The statements are long and few and the planner's choice is made in their text, so a plan is
# made once for each connection. Nothing here gains from compiling expressions.
# That plan must not depend on statistics either: with them the planner takes to scanning whole
# tables, which are small when it looks and large when it runs.
OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "plan_cache_mode=force_generic_plan",
        "enable_seqscan=off",
        "enable_mergejoin=off",
        "jit=off",
        "timezone=UTC",
    )
)


def _connect(dsn: str) -> Connection[Row]:
    connection: Connection[Row] = Connection.connect(
        dsn, autocommit=True, row_factory=namedtuple_row, options=OPTIONS
    )
    connection.prepare_threshold = 0
    connection.prepared_max = 200
    arrays.register(connection)
    return connection


def _rows(cursor: Cursor[Row]) -> list[Row]:
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
def _transaction(connection: Connection[Row]) -> Iterator[None]:
    """As the driver's own, but a rollback forgets no prepared statement.

    The driver drops them all then, since one may be of a table that is gone with the rollback.
    Services make no tables, and planning their statements anew takes longer than running them.
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
        return _rows(self._connection.execute(sql, params, binary=True))

    def one(self, sql: str, params: Params) -> Row | None:
        rows = _rows(self._connection.execute(sql, params, binary=True))
        return rows[0] if rows else None

    def run(self, sql: str, params: Params) -> int:
        """Execute; answers the number of rows changed."""
        return self._connection.execute(sql, params).rowcount


class StateDatabase:
    """Every access to the state database goes through here."""

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
        self._connections = Connections(self._connect, size, timeout=10)

    def _connect(self) -> Connection[Row]:
        try:
            return _connect(self.dsn)
        except psycopg.OperationalError:
            fresh = self._refresh() if self._refresh is not None else self.dsn
            if fresh == self.dsn:
                raise
            self.dsn = fresh
            return _connect(fresh)

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
            raise Unavailable("The state database does not answer.") from error

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        """A short transaction; it commits when the block ends well."""
        self.crash_points(f"{name}:begin")
        with self.connection() as connection, _transaction(connection):
            yield Transaction(connection)
            self.crash_points(f"{name}:before_commit")
        self.crash_points(f"{name}:after_commit")

    def write(self, name: str, sql: str, params: Params) -> list[Row]:
        """One statement that is its own transaction: one round trip."""
        self.crash_points(f"{name}:before_commit")
        with self.connection() as connection:
            rows = _rows(connection.execute(sql, params, binary=True))
        self.crash_points(f"{name}:after_commit")
        return rows

    def read(self, sql: str, params: Params) -> list[Row]:
        with self.connection() as connection:
            return connection.execute(sql, params, binary=True).fetchall()
