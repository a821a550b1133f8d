"""Transactions of the state database: what they keep, and what they say when they fail."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from trace_core.database.state import StateDatabase
from trace_core.kernel.errors import Unavailable

ADD = "INSERT INTO orgs (org_id, name, created_at) VALUES (gen_random_uuid(), %(name)s, 'epoch')"
COUNT = "SELECT count(*) AS n FROM orgs"
PREPARED = "SELECT count(*) AS n FROM pg_prepared_statements"


class Refused(Exception):
    pass


@pytest.fixture
def one_connection(state_dsn: str) -> Iterator[StateDatabase]:
    database = StateDatabase(state_dsn, size=1)
    yield database
    database.close()


def _number(state: StateDatabase, sql: str) -> int:
    return int(state.read(sql, {})[0].n)


def test_what_a_block_refuses_is_not_there(one_connection: StateDatabase) -> None:
    with pytest.raises(Refused), one_connection.transaction("test") as tx:
        tx.run(ADD, {"name": "a"})
        raise Refused
    assert _number(one_connection, COUNT) == 0
    with one_connection.transaction("test") as tx:
        tx.run(ADD, {"name": "a"})
    assert _number(one_connection, COUNT) == 1


def test_a_rollback_keeps_the_plans_of_its_connection(one_connection: StateDatabase) -> None:
    for _ in range(2):
        assert _number(one_connection, PREPARED) >= 0
    before = _number(one_connection, PREPARED)
    with pytest.raises(Refused), one_connection.transaction("test") as tx:
        tx.run(ADD, {"name": "a"})
        raise Refused
    assert _number(one_connection, PREPARED) == before + 1


def test_a_swallowed_error_does_not_pass_for_a_commit(one_connection: StateDatabase) -> None:
    with (
        pytest.raises(psycopg.InternalError, match="COMMIT became"),
        one_connection.transaction("test") as tx,
    ):
        tx.run(ADD, {"name": "a"})
        with pytest.raises(psycopg.errors.UniqueViolation):
            tx.run(ADD, {"name": "a"})
    assert _number(one_connection, COUNT) == 0


def test_a_connection_that_breaks_in_a_transaction_is_replaced(
    one_connection: StateDatabase, state_dsn: str, postgres_server: PostgresServer
) -> None:
    with pytest.raises(Unavailable), one_connection.transaction("test") as tx:
        tx.run(ADD, {"name": "a"})
        postgres_server.cut(state_dsn)
    assert _number(one_connection, COUNT) == 0
