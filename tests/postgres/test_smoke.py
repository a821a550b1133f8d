"""The parts of `make localstack-smoke` that need a database and no emulator."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from infra.smoke import history
from infra.smoke.state import state_database
from tests.postgres.lite_app import Org
from tests.postgres_server import fastest_folder

DAG = """
version: 1
name: ranged
jobs:
  - { name: asked, activation: source, runtime: dispatcher, operator: range_request,
      source: { kind: manual }, outputs: 1 }
  - { name: chunks, activation: reactive, runtime: dispatcher, operator: range_splitter,
      execution_strategy: PerPartition, inputs: [{ from: { job: asked, output: 0 } }],
      outputs: 1, config: { chunk_size: 5 } }
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not under pytest's own folder, which lets no other user through.
    folder = Path(tempfile.mkdtemp(prefix="trace-smoke-", dir=fastest_folder()))
    yield folder / "server"
    shutil.rmtree(folder)


def test_the_state_database_has_an_owner_with_a_password_who_is_no_superuser(folder: Path) -> None:
    with state_database(folder) as state:
        with psycopg.connect(state.dsn) as connection:
            row = connection.execute(
                "SELECT current_user, rolsuper, rolcreaterole FROM pg_roles"
                " WHERE rolname = current_user"
            ).fetchone()
            # It makes the roles of the data database, and is no superuser.
            assert row == ("trace", False, True)
        secret = json.loads(state.secret)
        wrong = psycopg.conninfo.make_conninfo(state.dsn, password=secret["password"] + "x")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(wrong)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(state.dsn)


def test_the_history_of_a_run_is_read_without_ids_and_times(
    orgs: tuple[Org, Org], state_dsn: str
) -> None:
    alpha, _ = orgs
    alpha.deploy(DAG)
    request = {"request": {"start": 0, "end": 9}}
    alpha.ok("POST", "/v1/dags/ranged/jobs/asked/trigger", request)
    alpha.app.dispatcher.run_until_idle(timedelta(seconds=10))
    found = history.read(state_dsn, "ranged")
    assert found == history.History(
        Counter(
            {
                "task asked of the source, made by the deploy: open": 1,
                "task chunks p0-9 revision 1, made by asked slice: Completed": 1,
            }
        ),
        Counter(
            {
                "event asked slice output 0: p0-9 revision 1 (0 to 9)": 1,
                "event chunks p0-9 output 0: p0-4 revision 1 (0 to 4)": 1,
                "event chunks p0-9 output 0: p5-9 revision 1 (5 to 9)": 1,
            }
        ),
        repeated=0,
    )
    assert history.read(state_dsn, "another").tasks.total() == 0
