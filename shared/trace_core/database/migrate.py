"""Migrations: numbered SQL files, applied once each, in order, under a lock.

The first lines of a file say whether it goes before or after the code that needs it, and which
lock it takes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from itertools import pairwise

import psycopg
from psycopg import sql

from trace_core.database.sql import Statements
from trace_core.kernel.errors import Conflict
from trace_core.kernel.ids import first_uuid7
from trace_core.kernel.limits import HISTORY_MONTHS_AHEAD

_STATEMENTS = Statements("trace_core.database", "migrate.sql")
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_PARTITIONED = ("tasks", "attempts", "task_inputs", "task_outputs", "events")
"""History: partitioned by the month of the task, so that retention drops whole months."""


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


def migrations() -> list[Migration]:
    found = []
    for file in resources.files("trace_core.database").joinpath("migrations/state").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], text))
    return sorted(found, key=lambda migration: migration.number)


def migrate(dsn: str, now: datetime) -> list[Migration]:
    """Apply what is missing, all or nothing, and make the partitions of the coming months."""
    applied_now = []
    with psycopg.connect(dsn) as connection:
        connection.execute(_STATEMENTS["lock_migrations"])
        connection.execute(_STATEMENTS["create_migrations_table"])
        applied = _applied(connection)
        for migration in migrations():
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
        add_history_partitions(connection, now)
    return applied_now


def status(dsn: str) -> list[MigrationStatus]:
    with psycopg.connect(dsn) as connection:
        exists = connection.execute(_STATEMENTS["migrations_table_exists"]).fetchone()
        applied = _applied(connection) if exists and exists[0] else {}
    return [
        MigrationStatus(m.number, m.name, applied[m.number][1] if m.number in applied else None)
        for m in migrations()
    ]


def _applied(connection: psycopg.Connection[tuple[object, ...]]) -> dict[int, tuple[str, datetime]]:
    rows = connection.execute(_STATEMENTS["applied_migrations"]).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}  # type: ignore[misc]


def add_history_partitions(
    connection: psycopg.Connection[tuple[object, ...]], now: datetime
) -> int:
    """Make each month's partition from the past up to `HISTORY_MONTHS_AHEAD`; answers how many.

    There is no default partition: rows in one would block the partition that they belong to.
    """
    existing = {str(row[0]) for row in connection.execute(_STATEMENTS["history_partitions"])}
    months = [_month(now, offset) for offset in range(HISTORY_MONTHS_AHEAD + 2)]
    made = 0
    for table in _PARTITIONED:
        if not any(name.startswith(f"{table}_") for name in existing):
            _add_partition(connection, table, f"{table}_before", None, months[0])
            made += 1
        for start, end in pairwise(months):
            name = f"{table}_{start:%Y%m}"
            if name not in existing:
                _add_partition(connection, table, name, start, end)
                made += 1
    return made


def _month(now: datetime, offset: int) -> datetime:
    index = now.year * 12 + now.month - 1 + offset
    return now.replace(
        year=index // 12, month=index % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _add_partition(
    connection: psycopg.Connection[tuple[object, ...]],
    table: str,
    name: str,
    start: datetime | None,
    end: datetime,
) -> None:
    connection.execute(
        sql.SQL(_STATEMENTS["add_history_partition"]).format(
            partition=sql.Identifier(name),
            parent=sql.Identifier(table),
            start=sql.SQL("MINVALUE") if start is None else sql.Literal(str(first_uuid7(start))),
            end=sql.Literal(str(first_uuid7(end))),
        )
    )
