"""The Postgres beside the emulator: a port on loopback, a role with a password, a secret."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from infra.localstack.program import HOST, free_port
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.database.sql import Statements

_SQL = Statements("infra.smoke", "state.sql")
_ROLE = _DATABASE = "trace"


@dataclass(frozen=True)
class State:
    port: int
    password: str

    @property
    def secret(self) -> str:
        """As RDS writes it, but for the encryption, which loopback does without."""
        return json.dumps(
            {
                "host": HOST,
                "port": self.port,
                "dbname": _DATABASE,
                "username": _ROLE,
                "password": self.password,
                "sslmode": "disable",
            }
        )

    @property
    def dsn(self) -> str:
        return psycopg.conninfo.make_conninfo(
            host=HOST, port=self.port, dbname=_DATABASE, user=_ROLE, password=self.password
        )


@contextmanager
def state_database(folder: Path) -> Iterator[State]:
    """A new server in that folder, gone at the end."""
    state = State(free_port(), secrets.token_urlsafe(24))
    with EmbeddedPostgres(folder, durable=False, port=state.port) as server:
        with psycopg.connect(server.database("postgres"), autocommit=True) as connection:
            role = sql.Identifier(_ROLE)
            for name, values in (
                ("create_role", {"role": role, "password": sql.Literal(state.password)}),
                ("own_database", {"role": role, "name": sql.Identifier(_DATABASE)}),
            ):
                connection.execute(sql.SQL(_SQL[name]).format(**values))
        yield state
