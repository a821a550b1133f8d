"""The services on a database of the test's own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commit_world import FORK, CommitWorld
from tests.factories import World
from tests.manual_clock import ManualClock
from tests.postgres.data_world import DataWorld
from tests.postgres.library import Library
from tests.postgres.lite_app import OPERATORS, UNLIMITED, CountingState, Org, SilentWaker
from tests.postgres.served import Person, Served
from tests.postgres.shell import local_shell, shell
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.identity.model import PlatformRole
from trace_core.kernel.ids import Ids
from trace_core.settings import Settings

__all__ = ["local_shell", "shell"]


@pytest.fixture
def world(state_database: StateDatabase, manual_clock: ManualClock, ids: Ids) -> World:
    return World(state_database, manual_clock, ids)


@pytest.fixture
def chain(world: World) -> World:
    """a -> b -> c, deployed; nothing claimed yet."""
    world.deploy()
    return world


@pytest.fixture
def commit_world(
    state_database: StateDatabase, manual_clock: ManualClock, ids: Ids, tmp_path: Path
) -> CommitWorld:
    return CommitWorld(state_database, manual_clock, ids, tmp_path / "objects")


@pytest.fixture
def fork(commit_world: CommitWorld) -> CommitWorld:
    """a and side -> b -> c, deployed, with manifests."""
    commit_world.deploy(FORK)
    for job, index in (("a", 0), ("side", 0), ("b", 0), ("b", 1), ("c", 0)):
        commit_world.keep(job, "s3", index=index)
    return commit_world


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target, metrics=True):
        yield target


@pytest.fixture
def orgs(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids, log: io.StringIO
) -> Iterator[tuple[Org, Org]]:
    state = CountingState(state_dsn)
    alpha, beta = (Org(name, tmp_path, state, manual_clock, ids) for name in ("alpha", "beta"))
    yield alpha, beta
    alpha.app.close()
    beta.app.close()
    state.close()


@pytest.fixture
def served(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids, log: io.StringIO
) -> Iterator[Served]:
    state = StateDatabase(state_dsn, size=8)
    settings = Settings(home=tmp_path / "home", operator_modules=(OPERATORS,), **UNLIMITED)
    found = Served(App(settings, state=state, clock=manual_clock, ids=ids, waker=SilentWaker()))
    yield found
    found.stop()
    state.close()


@pytest.fixture
def alpha(orgs: tuple[Org, Org]) -> Org:
    orgs[0].deploy()
    return orgs[0]


@pytest.fixture
def beta(orgs: tuple[Org, Org]) -> Org:
    orgs[1].deploy()
    return orgs[1]


@pytest.fixture
def admin(served: Served) -> Person:
    served.app.orgs.first_admin(served.app.own_org, served.app.subject("ada"))
    return Person(served, "ada")


@pytest.fixture
def library(served: Served, admin: Person) -> Library:
    found = Library(served, admin, served.member("carla", PlatformRole.WRITER))
    found.deploy(found.creator)
    # As a deploy writes it down, and as its file says.
    found.change(
        "INSERT INTO pointer_moves SELECT c.dataset_uuid, c.swap, c.dataset_version, NULL,"
        " v.created_at FROM dataset_current c JOIN dataset_versions v"
        " ON v.dataset_version = c.dataset_version ON CONFLICT DO NOTHING"
    )
    found.change("UPDATE publications SET freshness = '60 s' WHERE dataset_name = 'orders'")
    return found


@pytest.fixture
def data_world(
    data_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[DataWorld]:
    found = DataWorld(data_dsn, tmp_path / "objects", manual_clock, ids)
    yield found
    found.close()
