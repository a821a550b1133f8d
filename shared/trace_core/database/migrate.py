"""Migrations: numbered SQL files, applied once each, in order, under a lock.

The first lines of a file say whether it goes before or after the code that needs it, and which
lock it takes. The state and the data database have files of their own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Literal

import psycopg

from trace_core.database.history import add_months
from trace_core.database.sql import Statements
from trace_core.kernel.errors import Conflict

_STATEMENTS = Statements("trace_core.database", "migrate.sql")
Which = Literal["state", "data"]
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class MigrationStatus:
    number: int
    name: str
    applied_at: datetime | None


class MigrationChanged(Conflict):
    """A migration that was applied has another text now; write a new one instead."""

    code = "MigrationChanged"


def migrations(which: Which = "state") -> list[Migration]:
    found = []
    for file in resources.files("trace_core.database").joinpath("migrations", which).iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], text))
    return sorted(found, key=lambda migration: migration.number)


def migrate(dsn: str, now: datetime, which: Which = "state") -> list[Migration]:
    """Apply what is missing, all or nothing.

    The state database also gets the partitions of the coming months, the data database its roles.
    """
    applied_now = []
    with psycopg.connect(dsn) as connection:
        connection.execute(_STATEMENTS["lock_migrations"])
        connection.execute(_STATEMENTS["create_migrations_table"])
        if which == "data":
            connection.execute(_STATEMENTS["make_data_roles"])
        applied = _applied(connection)
        for migration in migrations(which):
            known = applied.get(migration.number)
            if known is None:
                connection.execute(migration.text.encode())
                connection.execute(
                    _STATEMENTS["record_migration"],
                    {
                        "number": migration.number,
                        "name": migration.name,
                        "checksum": migration.checksum,
                        "now": now,
                    },
                )
                applied_now.append(migration)
            elif known[0] != migration.checksum:
                raise MigrationChanged(migration=f"{migration.number:04}_{migration.name}")
        if which == "state":
            add_months(connection, now)
    return applied_now


def status(dsn: str, which: Which = "state") -> list[MigrationStatus]:
    with psycopg.connect(dsn) as connection:
        exists = connection.execute(_STATEMENTS["migrations_table_exists"]).fetchone()
        applied = _applied(connection) if exists and exists[0] else {}
    return [
        MigrationStatus(m.number, m.name, applied[m.number][1] if m.number in applied else None)
        for m in migrations(which)
    ]


def _applied(connection: psycopg.Connection[tuple[object, ...]]) -> dict[int, tuple[str, datetime]]:
    rows = connection.execute(_STATEMENTS["applied_migrations"]).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}  # type: ignore[misc]
