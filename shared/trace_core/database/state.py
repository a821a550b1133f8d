"""The state database: a pool, single statements and short transactions.

A transaction is opened in a service and nowhere else. Each one has a name, and passes named
points before and after its commit, at which the simulation may crash it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
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
_OPTIONS = "-c plan_cache_mode=force_generic_plan -c jit=off -c timezone=UTC"


def _connect(dsn: str) -> Connection[Row]:
    connection: Connection[Row] = Connection.connect(
        dsn, autocommit=True, row_factory=namedtuple_row, options=_OPTIONS
    )
    connection.prepare_threshold = 0
    connection.prepared_max = 200
    arrays.register(connection)
    return connection


class Transaction:
    """What a service may do inside an open transaction."""

    def __init__(self, connection: Connection[Row]) -> None:
        self._connection = connection

    def all(self, sql: str, params: Params) -> list[Row]:
        cursor = self._connection.execute(sql, params, binary=True)
        return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, params: Params) -> Row | None:
        cursor = self._connection.execute(sql, params, binary=True)
        return cursor.fetchone() if cursor.description else None

    def run(self, sql: str, params: Params) -> int:
        """Execute; answers the number of rows changed."""
        return self._connection.execute(sql, params).rowcount


class StateDatabase:
    """Every access to the state database goes through here."""

    def __init__(
        self, dsn: str, *, size: int = 4, crash_points: CrashPoints = no_crash_points
    ) -> None:
        self.dsn = dsn
        self.crash_points = crash_points
        self._connections = Connections(lambda: _connect(dsn), size, timeout=10)

    def close(self) -> None:
        self._connections.close()

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
        with self.connection() as connection, connection.transaction():
            yield Transaction(connection)
            self.crash_points(f"{name}:before_commit")
        self.crash_points(f"{name}:after_commit")

    def write(self, name: str, sql: str, params: Params) -> list[Row]:
        """One statement that is its own transaction: one round trip."""
        self.crash_points(f"{name}:before_commit")
        with self.connection() as connection:
            cursor = connection.execute(sql, params, binary=True)
            rows = cursor.fetchall() if cursor.description else []
        self.crash_points(f"{name}:after_commit")
        return rows

    def read(self, sql: str, params: Params) -> list[Row]:
        with self.connection() as connection:
            return connection.execute(sql, params, binary=True).fetchall()
