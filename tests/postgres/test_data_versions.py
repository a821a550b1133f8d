"""Tables of dataset versions, and who may do what with them."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.dataset_layouts import APPEND, BLOCKS, Layouts, PostgresLayout, block, row_hashes
from tests.manual_clock import START
from tests.postgres.data_world import DataWorld
from tests.postgres_server import fastest_folder
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.dag.column_types import PLAIN_TYPES
from trace_core.dag.model import Column
from trace_core.database.data import Columns, DataDatabase, DataRole, Definitions
from trace_core.database.migrate import migrate, status
from trace_core.kernel.errors import Denied, Invalid, NotFound
from trace_core.storage.errors import RowsInvalid, VersionDiffers
from trace_core.storage.model import Backend, schema_name, table_name
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.reader import PinnedReader
from trace_core.storage.scopes import WHOLE
from trace_core.storage.versions import VersionTables

COUNT_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname LIKE %s"


def test_making_a_version_twice_changes_nothing(data_world: DataWorld) -> None:
    one = data_world.definition().table
    assert data_world.tables.ensure_version(one) is True
    assert data_world.tables.ensure_version(one) is False
    for other in (
        replace(one, columns=BLOCKS[:2]),
        replace(one, columns=tuple(reversed(BLOCKS))),
        replace(one, update_strategy=APPEND, unique_key=("hash",)),
    ):
        with pytest.raises(VersionDiffers):
            data_world.tables.ensure_version(other)
    assert data_world.one(COUNT_TABLES, "dataset%") == 1


def test_several_deploys_may_make_the_same_version_at_once(data_world: DataWorld) -> None:
    one = data_world.definition().table
    made: list[bool] = []
    threads = [
        threading.Thread(target=lambda: made.append(data_world.tables.ensure_version(one)))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert sorted(made) == [False, False, False, True]


def test_names_of_tables_fit_postgres(data_world: DataWorld) -> None:
    one = data_world.definition()
    assert len(schema_name(one.dataset_uuid)) == 40
    assert len(table_name(one.dataset_version)) == 34
    data_world.tables.ensure_version(one.table)
    indexes = "SELECT max(length(indexname)) FROM pg_indexes WHERE schemaname = %s"
    assert data_world.one(indexes, schema_name(one.dataset_uuid)) <= 63


def test_every_type_of_the_list_makes_a_column(data_world: DataWorld) -> None:
    types = (*PLAIN_TYPES, "numeric(1000)", "numeric(20, 6)", "numeric(38,0)")
    columns = tuple(Column(f"c{n}", kind) for n, kind in enumerate(types))
    one = data_world.definition(columns=columns)
    assert data_world.tables.ensure_version(one.table)
    reader = PinnedReader(data_world.store, data_world.data)
    assert reader.table(one.part(0, Backend.POSTGRES)).num_rows == 0


@pytest.mark.parametrize(
    ("columns", "unique_key", "reason"),
    [
        ((), (), "at least one"),
        ((Column("a b", "text"),), (), "no name"),
        ((Column('a"; DROP TABLE x; --', "text"),), (), "no name"),
        ((Column("_from", "text"),), (), "platform"),
        ((Column("xmin", "text"),), (), "no name"),
        ((Column("a", "text"), Column("a", "text")), (), "twice"),
        ((Column("a", "money"),), (), "no type"),
        ((Column("a", "text); DROP TABLE x; --"),), (), "no type"),
        ((Column("a", "jsonb"),), ("a",), "identify"),
        ((Column("a", "text"),), ("b",), "no column"),
    ],
)
def test_a_table_that_could_not_be_made_is_refused(
    data_world: DataWorld, columns: tuple[Column, ...], unique_key: tuple[str, ...], reason: str
) -> None:
    one = data_world.definition(columns=columns, unique_key=unique_key, update_strategy=APPEND)
    with pytest.raises(RowsInvalid, match=reason):
        data_world.tables.ensure_version(one.table)


def test_append_and_a_unique_key_go_together(data_world: DataWorld) -> None:
    for one in (
        data_world.definition(update_strategy=APPEND),
        data_world.definition(unique_key=("hash",)),
    ):
        with pytest.raises(RowsInvalid, match="unique key"):
            data_world.tables.ensure_version(one.table)


def test_a_deleted_version_leaves_nothing_and_others_alone(data_world: DataWorld) -> None:
    gone, kept = data_world.layout(), data_world.layout()
    sibling = replace(gone.definition, dataset_version=kept.definition.dataset_version)
    for each in (gone, kept):
        each.commit(WHOLE, [block(1, "a")])
    one = gone.definition
    data_world.tables.delete_version(sibling.dataset_uuid, sibling.dataset_version)
    assert data_world.one("SELECT count(*) FROM trace.versions") == 2
    for _ in range(2):
        data_world.tables.delete_version(one.dataset_uuid, one.dataset_version)
    assert data_world.one(COUNT_TABLES, f"{schema_name(one.dataset_uuid)}%") == 0
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dataset%%'"
    assert data_world.one(schemas) == 1
    for table in ("versions", "records", "completions"):
        assert data_world.one(f"SELECT count(*) FROM trace.{table}") == 1  # noqa: S608
    with pytest.raises(NotFound):
        gone.reader.table(gone.part(1))
    with pytest.raises(NotFound):
        gone.commit(WHOLE, [])
    assert row_hashes(kept.reader.table(kept.part(1))) == row_hashes([block(1, "a")])


def test_a_writer_writes_and_makes_no_tables(data_world: DataWorld) -> None:
    layout = data_world.layout(update_strategy=APPEND, unique_key=("hash",))
    session = data_world.session(role=DataRole.WRITER)
    writer = replace(layout, output=PostgresOutput(session, data_world.clock))
    assert writer.commit(WHOLE, [block(1, "a")]) == 1
    places = {"schema": layout.part(1).schema_name, "table": layout.part(1).table_name}
    for statement in (
        "DELETE FROM {schema}.{table}",
        "TRUNCATE {schema}.{table}",
        "DROP TABLE {schema}.{table}",
        "UPDATE {schema}.{table} SET _from = 0",
        "ALTER TABLE {schema}.{table} ADD COLUMN x int",
        "CREATE TABLE {schema}.more (x int)",
        "CREATE SCHEMA more",
        "DELETE FROM trace.records",
        "UPDATE trace.records SET number = 7",
        "UPDATE trace.versions SET columns = '[]'",
        "DELETE FROM trace.fences",
        "UPDATE trace.epoch SET epoch = 0",
    ):
        with pytest.raises(Denied), session.transaction("test") as tx:
            tx.run(statement, {}, places)


def test_a_reader_reads_rows_and_nothing_else(data_world: DataWorld) -> None:
    layout = data_world.layout()
    layout.commit(WHOLE, [block(1, "a")])
    session = data_world.session(role=DataRole.READER)
    found = PinnedReader(data_world.store, session).table(layout.part(1))
    assert row_hashes(found) == row_hashes([block(1, "a")])
    places = {"schema": layout.part(1).schema_name, "table": layout.part(1).table_name}
    for statement in (
        "UPDATE {schema}.{table} SET _to = 1",
        "DELETE FROM {schema}.{table}",
        "INSERT INTO {schema}.{table} (number, _from, _scope) VALUES (1, 1, '')",
        "SELECT * FROM trace.fences",
        "SELECT * FROM trace.records",
        "CREATE SCHEMA more",
    ):
        with pytest.raises(Denied), session.transaction("test") as tx:
            tx.run(statement, {}, places)


def test_what_goes_into_a_statement_is_quoted(data_world: DataWorld) -> None:
    with data_world.data.transaction("test") as tx:
        odd = 'a"; DROP SCHEMA trace; --'
        row = tx.one("SELECT 1 AS {name}", {}, {"name": odd})
        assert row is not None and row[0] == 1
        tx.one(
            "SELECT {columns} FROM (SELECT 1 AS a, 2 AS b) x", {}, {"columns": Columns(("b", "a"))}
        )
        with pytest.raises(Invalid):
            tx.run("CREATE TEMP TABLE x ({c})", {}, {"c": Definitions((("a", "int; --"),))})
    assert data_world.one("SELECT count(*) FROM pg_namespace WHERE nspname = 'trace'") == 1


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    # Not under pytest's own folder, which lets no other user through.
    folder = Path(tempfile.mkdtemp(prefix="trace-roles-", dir=fastest_folder()))
    with EmbeddedPostgres(folder / "server", durable=False) as server:
        yield server
    shutil.rmtree(folder)


def _as(server: EmbeddedPostgres, user: str, database: str) -> str:
    return psycopg.conninfo.make_conninfo(server.database(database), user=user)


def test_users_without_superuser_rights_can_migrate_and_run_it(
    own_server: EmbeddedPostgres, data_world: DataWorld
) -> None:
    """As on RDS: the admin may make roles and owns its database; a writer has just its role."""
    with psycopg.connect(own_server.database("postgres"), autocommit=True) as connection:
        for user in ("admin", "second"):
            connection.execute(f"CREATE ROLE {user} LOGIN CREATEROLE CREATEDB")  # type: ignore[arg-type]
        connection.execute("CREATE ROLE worker LOGIN")
        connection.execute("CREATE DATABASE data OWNER admin")
        connection.execute("CREATE DATABASE data2 OWNER second")
    dsn = _as(own_server, "admin", "data")
    assert [each.number for each in migrate(dsn, START, "data")] == [1, 2]
    assert migrate(dsn, START, "data") == []
    assert [each.applied_at for each in status(dsn, "data")] == [START, START]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("GRANT trace_data_writer TO worker")

    admin, worker = DataDatabase(dsn), DataDatabase(_as(own_server, "worker", "data"))
    layout = Layouts(
        data_world.store, admin, data_world.clock, data_world.ids, Backend.POSTGRES
    ).make()
    assert isinstance(layout, PostgresLayout)
    by_worker = replace(layout, output=PostgresOutput(worker, data_world.clock))
    assert by_worker.commit(WHOLE, [block(1, "a")]) == 1
    with pytest.raises(Denied):
        VersionTables(worker).ensure_version(data_world.definition().table)
    admin.close()
    worker.close()

    # Roles of the server that somebody else made: they must be granted once.
    other = _as(own_server, "second", "data2")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        migrate(other, START, "data")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("GRANT trace_data_owner TO second")
    assert [each.number for each in migrate(other, START, "data")] == [1, 2]
