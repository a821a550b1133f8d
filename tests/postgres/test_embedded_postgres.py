"""The embedded server: shared by processes, outliving them, and back after anything."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from infra.localstack.program import free_port
from tests.postgres_server import fastest_folder
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.kernel.errors import Invalid

DATABASE = """
import sys
from pathlib import Path
from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1]), durable=False).database("trace_state"))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not under pytest's own folder, which lets no other user through.
    folder = Path(tempfile.mkdtemp(prefix="trace-embedded-", dir=fastest_folder()))
    yield folder / "server"
    EmbeddedPostgres(folder / "server").stop()
    shutil.rmtree(folder)


def setting(dsn: str, name: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def start_in_other_processes(folder: Path, count: int) -> list[str]:
    arguments = [sys.executable, "-W", "error", "-c", DATABASE, str(folder)]
    others = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    found = [other.communicate(timeout=60)[0].strip() for other in others]
    assert [other.returncode for other in others] == [0] * count
    return found


def test_processes_that_start_at_once_share_a_server_that_outlives_them(folder: Path) -> None:
    [dsn] = set(start_in_other_processes(folder, 3))
    server = EmbeddedPostgres(folder, durable=False)
    assert server.database("trace_state") == dsn
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept (number integer)")
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    server.stop()
    with psycopg.connect(server.database("trace_state")) as connection:
        connection.execute("TABLE kept")


def test_the_default_is_durable_and_without_a_port(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        dsn = server.database("trace_data")
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert setting(dsn, name) == "on"
        assert setting(dsn, "listen_addresses") == ""
        assert setting(dsn, "max_connections") == "100"
        assert setting(dsn, "shared_buffers") == "256MB"
        assert setting(dsn, "server_encoding") == "UTF8"
        assert (folder / "data").stat().st_mode & 0o777 == 0o700
    with EmbeddedPostgres(folder, durable=False) as server:
        assert setting(server.database("trace_data"), "fsync") == "off"


def test_with_a_port_it_listens_on_loopback_and_asks_for_a_password(folder: Path) -> None:
    port = free_port()
    with EmbeddedPostgres(folder, durable=False, port=port) as server:
        dsn = server.database("trace_state")
        assert setting(dsn, "listen_addresses") == "127.0.0.1"
        for given in ({}, {"password": "guessed"}):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(
                    host="127.0.0.1", port=port, user="postgres", dbname="trace_state", **given
                )
        with psycopg.connect(dsn) as connection:
            connection.execute("ALTER ROLE postgres PASSWORD 'known'")
        address = f"postgresql://postgres:known@127.0.0.1:{port}/trace_state"
        assert setting(address, "port") == str(port)


def test_a_very_long_path_with_odd_characters_works_and_leaves_no_socket_behind(
    folder: Path,
) -> None:
    deep = folder / ("it's a, long; (one) & " + "x" * 90) / ("ž" * 90)
    with EmbeddedPostgres(deep, durable=False) as server:
        dsn = server.database("trace_state")
        [socket_folder] = setting(dsn, "unix_socket_directories").strip('"').split(",")
        assert Path(socket_folder).stat().st_mode & 0o777 == 0o700
    assert not Path(socket_folder).exists()


def test_a_killed_server_comes_back_though_its_number_is_taken(folder: Path) -> None:
    server = EmbeddedPostgres(folder, durable=False)
    server.start()
    pid_file = folder / "data" / "postmaster.pid"
    text = pid_file.read_text(encoding="utf-8")
    os.kill(int(text.split()[0]), signal.SIGKILL)
    pid_file.write_text(re.sub(r"^\d+", str(os.getpid()), text), encoding="utf-8")
    assert setting(server.database("trace_state"), "fsync") == "off"


def test_a_folder_that_was_closed_above_it_does_not_keep_a_server_from_stopping(
    folder: Path,
) -> None:
    server = EmbeddedPostgres(folder / "inner", durable=False)
    server.start()
    folder.chmod(0o700)
    server.stop()
    assert not (folder / "inner" / "data" / "postmaster.pid").exists()


def test_an_initialisation_that_was_killed_is_made_again(folder: Path) -> None:
    (folder / "data.new").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n", encoding="utf-8")
    with EmbeddedPostgres(folder, durable=False) as server:
        server.database("trace_state")
    assert not (folder / "data.new").exists()


@pytest.mark.parametrize("name", ["", "x" * 64, "a\0b"])
def test_a_name_that_no_database_can_have_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Invalid):
        EmbeddedPostgres(folder, durable=False).database(name)


@pytest.mark.parametrize("name", ['a"b', "$HOME", "`id`", "a\nb", "a\\"])
def test_a_folder_that_a_shell_would_misread_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Invalid):
        EmbeddedPostgres(folder / name)


def test_stopping_what_never_started_is_no_error(folder: Path) -> None:
    EmbeddedPostgres(folder).stop()
    assert not folder.exists()
