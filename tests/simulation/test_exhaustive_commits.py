"""Every order of what may happen to commits of two databases, as far as fits into a test; all of
them are walked by `python -m tests.simulation --exhaustive-commits`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer
from tests.simulation.commit_services import services
from tests.simulation.engine import quiet
from tests.simulation.exhaustive_commits import Walk, explore
from tests.simulation.planted_commits import BUGS, Bug, planted
from tests.simulation.two_databases import Kept, Limits, SmallWorld
from trace_core.storage.model import Backend

DEPTH = 4
Worlds = dict[Backend, tuple[SmallWorld, Kept]]


@pytest.fixture(scope="module")
def worlds(postgres_server: PostgresServer) -> Iterator[Worlds]:
    with (
        quiet(),
        services(postgres_server, Backend.POSTGRES) as two,
        services(postgres_server, Backend.S3) as one,
    ):
        made = [SmallWorld(each, Limits()) for each in (two, one)]
        yield {
            backend: (world, world.now)
            for backend, world in zip((Backend.POSTGRES, Backend.S3), made, strict=True)
        }


def _at_the_beginning(worlds: Worlds, backend: Backend) -> SmallWorld:
    world, first = worlds[backend]
    world.put_back(first)
    return world


@pytest.mark.parametrize("backend", [Backend.POSTGRES, Backend.S3])
def test_no_order_of_events_breaks_a_commit(worlds: Worlds, backend: Backend) -> None:
    found = explore(_at_the_beginning(worlds, backend), depth=DEPTH)
    assert found.violations == []
    assert found.states > 90


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_walk_finds_a_planted_bug_on_its_path_and_nothing_there_without_it(
    worlds: Worlds, bug: Bug
) -> None:
    path = bug.path.split()
    world = _at_the_beginning(worlds, bug.backend)
    assert Walk(world).follow(path).violations == []
    world = _at_the_beginning(worlds, bug.backend)
    with planted(bug):
        assert Walk(world, first_only=True).follow(path).violations
