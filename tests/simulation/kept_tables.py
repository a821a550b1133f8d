"""States of a small world as they are kept and put back: the rows of tables, and objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import timedelta

from trace_core.database.data import Places, compose
from trace_core.database.postgres import Database
from trace_core.database.sql import Statements
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.ports.object_store import ObjectInfo

SQL = Statements("tests.simulation", "two_databases.sql")
Rows = Mapping[str, str]
"""The JSON of each table."""
_VACUUM_EVERY = 400
"""States put back."""


class KeptTables:
    """The few tables of one database that actions change; only those that differ are put back."""

    def __init__(self, database: Database, which: str, places: Places | None = None) -> None:
        self._database = database
        self._keep = compose(SQL[f"keep_{which}"], places)
        self._put_back = SQL[f"put_back_{which}"]
        self._count = 0
        with database.connection() as connection:
            connection.execute(compose(SQL[f"prepare_{which}"], places), prepare=False)
        self._now: Rows = {}
        self.names = tuple(self.keep())

    def keep(self) -> Rows:
        with self._database.connection() as connection:
            row = connection.execute(self._keep, prepare=True).fetchone()
        assert row is not None
        self._now = row._asdict()
        return self._now

    def put_back(self, kept: Rows) -> None:
        """`keep` was the last to look at the tables, or `put_back` to change them."""
        changed = {name: text for name, text in kept.items() if self._now[name] != text}
        self._now = kept
        if not changed:
            return
        text = "{" + ",".join(f'"{name}":{rows}' for name, rows in changed.items()) + "}"
        with self._database.connection() as connection:
            connection.execute(self._put_back, {"kept": text})
            self._count += 1
            if self._count % _VACUUM_EVERY == 0:
                connection.execute(SQL["vacuum"], prepare=False)


class KeptObjects:
    """`ObjectStore` in memory, so that the objects of another path can be taken away again."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def create(self, key: str, data: bytes) -> ObjectInfo:
        if key in self.held:
            raise Conflict("An object with that key exists.", key=key)
        self.held[key] = data
        return self.head(key)

    def replace(self, key: str, data: bytes, *, etag: str | None = None) -> ObjectInfo:
        raise NotImplementedError("nobody here replaces objects")

    def read(self, key: str) -> bytes:
        if key not in self.held:
            raise NotFound(key=key)
        return self.held[key]

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.read(key)[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        data = self.read(key)
        return ObjectInfo(key, len(data), hashlib.sha256(data).hexdigest())

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (self.head(key) for key in sorted(self.held) if key.startswith(prefix))

    def delete(self, key: str) -> None:
        raise NotImplementedError("nobody here deletes objects")

    def read_url(self, key: str, valid_for: timedelta) -> str:
        raise NotImplementedError("nobody here reads from an address")
