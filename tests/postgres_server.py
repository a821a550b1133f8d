"""One Postgres server for all test processes of a user, and a fresh database for each test.

Whoever uses the server holds a shared lock on one file. The kernel drops the lock of a killed
run, so the next user always knows whether it is alone and may clean up.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg import sql

from tests.manual_clock import START
from trace_core.adapters.lite.atomic_files import exclusive_lock
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.database import history, migrate
from trace_core.kernel.errors import Unavailable


class PostgresServer:
    """The shared server, from `acquire` to `release`."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or fastest_folder() / f"trace-tests-{os.geteuid()}"
        self._embedded = EmbeddedPostgres(self._folder, durable=False)
        self._users: int | None = None
        self._numbers = itertools.count(1)
        self._templates: dict[migrate.Which, str] = {}
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def acquire(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.stat().st_uid != os.geteuid():
            raise RuntimeError(f"{self._folder} belongs to another user")
        with exclusive_lock(self._folder / "gate.lock"):
            users = os.open(self._folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            alone = _try_alone(users)
            if alone:
                # A killed run may have left the server running, with the settings of its time.
                self._embedded.stop()
            try:
                self._embedded.start()
            except Unavailable:
                if not alone:
                    raise
                # Without fsync a crash of the machine may have spoiled the files.
                shutil.rmtree(self._folder / "data")
                self._embedded.start()
            fcntl.flock(users, fcntl.LOCK_SH)
            self._users = users
            self._connection = psycopg.connect(self._embedded.database("postgres"), autocommit=True)
            if alone:
                self._drop_leftovers()

    def release(self) -> None:
        """Let go; the last user stops the server."""
        if self._connection is not None:
            self._connection.close()
        if self._users is None:
            return
        with exclusive_lock(self._folder / "gate.lock"):
            if _try_alone(self._users):
                self._embedded.stop()
            os.close(self._users)
            self._users = None

    def clone(self, which: migrate.Which = "state") -> str:
        """The address of a new database with every migration applied."""
        if which not in self._templates:
            self._templates[which] = self._make_template(which)
        name = self._next_name()
        # Copying the files takes 12 ms; by default every page goes through the log, in 80 ms.
        statement = "CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
        self._execute(statement, name=name, template=self._templates[which])
        dsn = self._embedded.database(name)
        if which == "data":
            # A copy lacks what was granted on the database.
            migrate.migrate(dsn, START, which)
        return dsn

    def empty(self) -> str:
        """The address of a new database with nothing in it."""
        return self._embedded.database(self._next_name())

    def drop(self, dsn: str) -> None:
        """Drop a database, whoever is still connected to it."""
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        # A data database that an app made beside it has its name.
        for each in (str(name), f"{name}_data"):
            self._execute("DROP DATABASE IF EXISTS {name} WITH (FORCE)", name=each)

    @contextmanager
    def outage(self, dsn: str) -> Iterator[None]:
        """End all sessions of a database and let no new one in until the block ends."""
        name = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        self._execute("ALTER DATABASE {name} ALLOW_CONNECTIONS false", name=name)
        try:
            self.cut(dsn)
            yield
        finally:
            self._execute("ALTER DATABASE {name} ALLOW_CONNECTIONS true", name=name)

    def cut(self, dsn: str) -> int:
        """End all sessions of a database, and wait until they are gone; answers how many."""
        assert self._connection is not None
        found = self._connection.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
            " WHERE datname = %s AND backend_type = 'client backend'",
            [psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]],
        ).fetchone()
        assert found is not None
        return int(str(found[0]))

    def _next_name(self) -> str:
        return f"test_{os.getpid()}_{next(self._numbers)}"

    def _make_template(self, which: migrate.Which) -> str:
        """Migrated once for all processes, and again only when a migration or the month changes."""
        now = max(START, datetime.now(UTC))
        name = _template_name(now, which)
        with exclusive_lock(self._folder / "template.lock"):
            if name not in self._databases():
                unfinished = f"{name}_unfinished"
                self._execute("DROP DATABASE IF EXISTS {name} WITH (FORCE)", name=unfinished)
                dsn = self._embedded.database(unfinished)
                migrate.migrate(dsn, START, which)
                if which == "state":
                    with psycopg.connect(dsn) as connection:
                        # Tests run on a clock of their own and on the real one.
                        history.add_months(connection, now)
                self._execute("ALTER DATABASE {old} RENAME TO {name}", old=unfinished, name=name)
        return name

    def _drop_leftovers(self) -> None:
        now = max(START, datetime.now(UTC))
        current = (_template_name(now, "state"), _template_name(now, "data"))
        for name in self._databases():
            if name not in current and name.startswith(("test_", "template_")):
                self._execute("DROP DATABASE IF EXISTS {name} WITH (FORCE)", name=name)

    def _databases(self) -> list[str]:
        assert self._connection is not None
        rows = self._connection.execute("SELECT datname FROM pg_database WHERE NOT datistemplate")
        return [str(row[0]) for row in rows]

    def _execute(self, statement: str, **names: str) -> None:
        assert self._connection is not None
        identifiers = {key: sql.Identifier(name) for key, name in names.items()}
        self._connection.execute(sql.SQL(statement).format(**identifiers))


def fastest_folder() -> Path:
    """Memory where there is plenty: a database is a thousand small files."""
    memory = Path("/dev/shm")  # noqa: S108
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**31:
        return memory
    return Path(tempfile.gettempdir())


def _template_name(now: datetime, which: migrate.Which) -> str:
    texts = [which, *(migration.text for migration in migrate.migrations(which))]
    texts += [Path(migrate.__file__).read_text(encoding="utf-8"), f"{now:%Y%m}"]
    return "template_" + hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _try_alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
