"""Databases of one server: a second one beside the first."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from trace_core.database.sql import Statements
from trace_core.kernel.errors import Invalid

_STATEMENTS = Statements("trace_core.database", "databases.sql")
_NAME_BYTES_MAX = 63


def named(dsn: str, name: str) -> str:
    """The address of another database of the same server."""
    return make_conninfo(dsn, dbname=name)


def name_of(dsn: str) -> str:
    found = conninfo_to_dict(dsn).get("dbname")
    if not found:
        raise Invalid("The address of a database names the database.")
    return str(found)


def ensure_database(beside: str, name: str) -> None:
    """Make that database if the server does not have it; `beside` is the address of another."""
    if not name or "\0" in name or len(name.encode()) > _NAME_BYTES_MAX:
        raise Invalid(f"A database name has 1 to {_NAME_BYTES_MAX} bytes.")
    with psycopg.connect(beside, autocommit=True) as connection:
        found = connection.execute(_STATEMENTS["database_exists"], {"name": name}).fetchone()
        if found is None or not found[0]:
            statement = sql.SQL(_STATEMENTS["create_database"])
            # Another process may make it between the two statements.
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(statement.format(name=sql.Identifier(name)))
