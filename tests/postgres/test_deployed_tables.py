"""A deploy says where rows go: backends, columns, and tables in the data database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import UNLIMITED, SilentWaker
from trace_core.bootstrap import App
from trace_core.database.data import DataDatabase
from trace_core.database.state import StateDatabase
from trace_core.deploy.service import Deploys
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import Ids
from trace_core.settings import Settings

DAG = (Path(__file__).parents[2] / "dags" / "rows.dag.yaml").read_text(encoding="utf-8")
SCHEMA = """
  totals:
    from: { job: totals, output: 0 }
    schema:
      columns: { first_number: bigint, device: text, readings: integer, total: numeric }
"""


@pytest.fixture
def app(
    state_database: StateDatabase,
    data_database: DataDatabase,
    tmp_path: Path,
    manual_clock: ManualClock,
    ids: Ids,
) -> Iterator[App]:
    settings = Settings(home=tmp_path, operator_modules=("dags.rows_operators",), **UNLIMITED)
    made = App(
        settings, state=state_database, data=data_database, clock=manual_clock, ids=ids,
        waker=SilentWaker(),
    )  # fmt: skip
    yield made
    made.close()


def deploy(app: App, text: str = DAG) -> None:
    app.deploys.deploy(app.own_org, text, "rows.dag.yaml", SYSTEM)


def backends(app: App) -> dict[str, str]:
    rows = app.state.read(
        "SELECT j.name, v.backend FROM dataset_versions v JOIN jobs j USING (job_id)", {}
    )
    return {row.name: row.backend for row in rows}


def columns(app: App) -> list[tuple[str, str]]:
    """Of the one table, as both databases have them."""
    (made,) = app.data.read("SELECT * FROM trace.versions", {})
    (known,) = app.state.read(
        "SELECT columns FROM dataset_versions WHERE dataset_version = %(v)s",
        {"v": made.dataset_version},
    )
    assert made.columns == known.columns
    return [(each["name"], each["type"]) for each in made.columns]


def test_an_output_goes_where_its_operator_says_and_its_table_is_made(app: App) -> None:
    deploy(app)
    assert backends(app) == {"asked": "control", "readings": "s3", "totals": "postgres"}
    assert columns(app) == [
        ("first_number", "bigint"),
        ("device", "text"),
        ("readings", "bigint"),
        ("total", "bigint"),
    ]


def test_the_schema_of_a_publication_wins_over_the_operators_columns(app: App) -> None:
    head, _, _ = DAG.partition("  totals:\n    from: { job: totals")
    deploy(app, head + SCHEMA.lstrip("\n"))
    assert columns(app)[2:] == [("readings", "integer"), ("total", "numeric")]


def test_a_table_of_which_nobody_knows_the_columns_is_refused_with_a_way_out(app: App) -> None:
    text = DAG.replace("  readings:\n    from:", "  readings:\n    storage: postgres\n    from:")
    with pytest.raises(Invalid, match=r"job readings .*publish it with a `schema`"):
        deploy(app, text)
    assert backends(app) == {}


def test_outputs_of_one_job_in_two_places_are_refused_at_deploy(app: App) -> None:
    spec = replace(app.catalog["rows_readings"], name="two_readings", outputs=2)
    catalog = app.catalog.with_operators(spec)
    text = DAG.replace("operator: rows_readings", "operator: two_readings")
    text = text.replace("outputs: 1\n    update_strategy: replace\n    config", "outputs: 2\n"
                        "    update_strategy: replace\n    config")  # fmt: skip
    text = text.replace("  readings:\n    from: { job: readings, output: 0 }", "  readings:\n"
                        "    from: { job: readings, output: 1 }\n    storage: postgres\n"
                        "    schema: { columns: { number: bigint } }")  # fmt: skip
    deploys = Deploys(app.state, app.clock, app.ids, app.waker, catalog)
    with pytest.raises(Invalid, match=r"job readings .* kept in one place"):
        deploys.deploy(app.own_org, text, "rows.dag.yaml", SYSTEM)
    assert backends(app) == {}


def test_deploying_again_makes_nothing_new(app: App) -> None:
    deploy(app)
    deploy(app)
    assert len(app.data.read("SELECT * FROM trace.versions", {})) == 1
