"""Repoints in the wired services: the relay and the Dispatcher of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.lite_app import SilentWaker
from tests.postgres.published_world import PublishedWorld
from trace_core.bootstrap import App
from trace_core.kernel.scopes import Scope
from trace_core.settings import Profile, Settings
from trace_core.tasks.model import table_location


@pytest.fixture
def app(shop: PublishedWorld, tmp_path: Path) -> Iterator[App]:
    made = App(
        Settings(home=tmp_path / "home"),
        state=shop.state,
        data=shop.data.data,
        clock=shop.clock,
        ids=shop.ids,
        waker=SilentWaker(),
    )
    yield made
    made.close()


def test_a_registered_commit_appears_with_the_next_pass_of_the_dispatcher(
    shop: PublishedWorld, app: App
) -> None:
    app.relay.run_once()
    source = shop.claim_one()
    shop.accept(source, [shop.event("a", 1)])
    claim = shop.claim_one()
    number = shop.write("b", "one", 1, register=False)
    app.dispatcher.run_once()
    app.relay.run_once()
    assert shop.read("SELECT * FROM published.orders") == []
    dataset, version = shop.output("b")
    done = shop.complete(
        claim,
        outputs=[
            {
                "output_index": 0,
                "dataset_uuid": dataset,
                "dataset_version": version,
                "location": table_location(dataset),
                "commit_number": number,
                "replaces": 0,
                "written_by": {"attempt": claim.attempt, "lease_sequence": claim.lease_sequence},
                **Scope().fields(),
            }
        ],
    )
    assert done.error is None, done.error
    app.dispatcher.run_once()
    assert shop.read("SELECT * FROM published.orders") == [(1, "one")]


def test_the_outbox_shows_what_a_repoint_is_for(shop: PublishedWorld, app: App) -> None:
    (row,) = app.outbox_admin.rows(shop.org, kind="repoint")
    assert (row["target"], row["tasks"]) == (str(shop.dag_id()), 0)
    assert app.outbox_admin.rows(shop.org, kind="repoint", target=str(shop.dag_id())) == [row]


def test_without_a_data_database_nothing_is_wired(tmp_path: Path) -> None:
    def has_data(**settings: str) -> bool:
        made = App(Settings(home=tmp_path, **settings))  # type: ignore[arg-type]
        return made.has_data

    assert has_data()
    assert not has_data(profile=Profile.AWS)
    assert has_data(profile=Profile.AWS, data_secret="rows")
    assert has_data(profile=Profile.AWS, data_dsn="dbname=rows")
