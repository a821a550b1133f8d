"""The state database: what is to be done, by whom, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection
from psycopg.rows import namedtuple_row

from trace_core.database import arrays
from trace_core.database.postgres import Database, Params, Row, Transaction, as_json, options

__all__ = ["OPTIONS", "Params", "Row", "StateDatabase", "Transaction", "as_json"]

# The statements are long and few and the planner's choice is made in their text, so a plan is
# made once for each connection. Nothing here gains from compiling expressions.
# That plan must not depend on statistics either: with them the planner takes to scanning whole
# tables, which are small when it looks and large when it runs.
OPTIONS = options(
    "plan_cache_mode=force_generic_plan",
    "enable_seqscan=off",
    "enable_mergejoin=off",
    "jit=off",
    "timezone=UTC",
)


class StateDatabase(Database):
    """Every access to the state database goes through here."""

    name = "state"

    def _open(self, dsn: str) -> Connection[Row]:
        connection: Connection[Row] = Connection.connect(
            dsn, autocommit=True, row_factory=namedtuple_row, options=OPTIONS
        )
        connection.prepare_threshold = 0
        connection.prepared_max = 200
        arrays.register(connection)
        return connection

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        """A short transaction; it commits when the block ends well."""
        with self._named(name) as connection:
            yield Transaction(connection)
