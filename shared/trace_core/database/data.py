"""The data database: the rows of datasets, and the fences under which they are written.

Each dataset version is a table of its own, so statements vary in names. A statement holds
`{place}`s; what goes there is quoted here, and is never text of a user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection, sql
from psycopg.rows import namedtuple_row, tuple_row

from trace_core.database import arrays
from trace_core.database.postgres import (
    Database,
    Params,
    Row,
    Transaction,
    in_transaction,
    options,
    rows_of,
)
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Denied, Invalid, NotFound, Unavailable

_TYPE = re.compile(r'[a-z]+( [a-z]+)?(\([0-9]{1,4}(, ?[0-9]{1,4})?\))?( COLLATE "C")?')


class InUse(Unavailable):
    """Somebody uses it for longer than this could wait; try again."""

    code = "InUse"


class DataRole(StrEnum):
    """What a session may do, whoever logged in."""

    OWNER = "trace_data_owner"
    """Makes and drops tables: migrations, deploys, purges."""
    WRITER = "trace_data_writer"
    """Writes rows and records; makes and drops nothing but its own temporary tables."""
    READER = "trace_data_reader"
    """Reads rows."""


@dataclass(frozen=True)
class Columns:
    """Names, with commas between them."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Definitions:
    """Columns of a new table: names and types."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Selected:
    """Columns to read; those for which Python has no exact type come as text."""

    columns: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Condition:
    """What a compiler of ours made of a predicate; its values are parameters."""

    text: str


@dataclass(frozen=True)
class Constant:
    """An id in the definition of a view, which takes no parameters."""

    value: UUID


@dataclass(frozen=True)
class Query:
    """A query inside a statement, with places of its own."""

    text: str
    places: Places


Place = str | Columns | Definitions | Selected | Condition | Constant | Query
Places = Mapping[str, Place]


def compose(statement: str, places: Places | None) -> sql.Composed | str:
    if not places:
        return statement
    parts = {name: _part(place) for name, place in places.items()}
    return sql.SQL(statement).format(**parts)


def _part(place: Place) -> sql.Composable:
    match place:
        case str():
            return sql.Identifier(place)
        case Columns(names):
            return sql.SQL(", ").join([sql.Identifier(name) for name in names])
        case Definitions(columns):
            return sql.SQL(", ").join([_definition(name, kind) for name, kind in columns])
        case Selected(columns):
            return sql.SQL(", ").join([_selected(name, as_text) for name, as_text in columns])
        case Condition(text):
            return sql.SQL(text)
        case Constant(value):
            return sql.Literal(value)
        case Query(text, places):
            return sql.SQL(text).format(**{name: _part(each) for name, each in places.items()})


def _definition(name: str, kind: str) -> sql.Composable:
    # Checked against the list of types where the version is made, and again here.
    if not _TYPE.fullmatch(kind):
        raise Invalid("That is no type of a column.", field=name)
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))


def _selected(name: str, as_text: bool) -> sql.Composable:
    text = "{name}::text AS {name}" if as_text else "{name}"
    return sql.SQL(text).format(name=sql.Identifier(name))


class DataTransaction(Transaction):
    """Statements with places, and rows in bulk."""

    def all(self, sql: str, params: Params, places: Places | None = None) -> list[Row]:
        return rows_of(self._connection.execute(compose(sql, places), params, binary=True))

    def one(self, sql: str, params: Params, places: Places | None = None) -> Row | None:
        rows = self.all(sql, params, places)
        return rows[0] if rows else None

    def run(self, sql: str, params: Params, places: Places | None = None) -> int:
        return self._connection.execute(compose(sql, places), params).rowcount

    def copy(self, sql: str, places: Places, chunks: Iterable[bytes]) -> None:
        """Send what `COPY … FROM STDIN` takes, a chunk at a time."""
        with self._connection.cursor() as cursor, cursor.copy(compose(sql, places)) as copy:
            for chunk in chunks:
                copy.write(chunk)


class DataDatabase(Database):
    """Every access to the data database goes through here."""

    name = "data"

    def __init__(
        self,
        dsn: str,
        *,
        role: DataRole | None = None,
        size: int = 4,
        crash_points: CrashPoints = no_crash_points,
        refresh: Callable[[], str] | None = None,
    ) -> None:
        """With a `role` the session has its rights, not those of the user that logs in.

        That guards against mistakes. The wall is a user to whom nothing but that role is granted.
        """
        self._role = role
        super().__init__(dsn, size=size, crash_points=crash_points, refresh=refresh)

    def _open(self, dsn: str) -> Connection[Row]:
        settings = ["jit=off", "timezone=UTC", "bytea_output=hex", "extra_float_digits=1"]
        if self._role is not None:
            settings.append(f"role={self._role}")
        connection: Connection[Row] = Connection.connect(
            dsn, autocommit=True, row_factory=namedtuple_row, options=options(*settings)
        )
        # Each version has statements of its own, and its table may be gone tomorrow.
        connection.prepare_threshold = None
        arrays.register(connection)
        return connection

    @contextmanager
    def connection(self) -> Iterator[Connection[Row]]:
        try:
            with super().connection() as connection:
                yield connection
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise NotFound("The data database has no such dataset version.") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise Denied("The data database does not allow that to this role.") from error
        except psycopg.DataError as error:
            reason = error.diag.message_primary or "it does not fit its column"
            raise Invalid(f"The data database refused a value: {reason}.") from error
        except Unavailable as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise InUse from error
            raise

    @contextmanager
    def transaction(self, name: str) -> Iterator[DataTransaction]:
        """A short transaction; it commits when the block ends well."""
        with self._named(name) as connection:
            yield DataTransaction(connection)

    def stream(
        self, statement: str, params: Params, places: Places, *, batch_rows: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows in batches, from one snapshot; a connection is busy until the last one."""
        with (
            self.connection() as connection,
            in_transaction(connection),
            connection.cursor(name="rows", row_factory=tuple_row) as cursor,
        ):
            cursor.execute(compose(statement, places), params, binary=True)
            while rows := cursor.fetchmany(batch_rows):
                yield rows
