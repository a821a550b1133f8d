"""Every order of reserve, start, report, reap and retry, and of edits, cutovers and rollbacks, as
far as fits into a test; all of them are walked by `make simulate EXHAUSTIVE=1`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer
from tests.simulation.database import Definitions, deploy_shapes
from tests.simulation.exhaustive import explore
from tests.simulation.planted import planted
from tests.simulation.small_deploys import Forward, SmallDeploys

DEPTH, DEPTH_OF_DEPLOYS = 10, 4


@pytest.fixture(scope="module")
def deployed(postgres_server: PostgresServer) -> Iterator[Definitions]:
    dsn = postgres_server.clone()
    definitions = deploy_shapes(dsn)
    yield definitions
    definitions.state.close()
    postgres_server.drop(dsn)


def test_no_order_of_events_breaks_the_start_protocol(deployed: Definitions) -> None:
    found = explore(deployed, depth=DEPTH)
    assert found.violations == []
    assert found.states > 100


def test_no_order_of_events_breaks_a_deploy(deployed: Definitions) -> None:
    found = explore(deployed, depth=DEPTH_OF_DEPLOYS, world_type=SmallDeploys)
    assert found.violations == []
    assert found.states > 100


@pytest.mark.parametrize(
    "name", ["pins_not_fixed", "cut_over_with_open_tasks", "live_events_reach_candidates"]
)
def test_the_enumeration_of_deploys_finds_a_planted_bug(deployed: Definitions, name: str) -> None:
    with planted(name):
        found = explore(deployed, depth=DEPTH_OF_DEPLOYS, world_type=Forward, stop_at_first=True)
    assert found.violations


@pytest.mark.parametrize(
    "name", ["duplicate_invoke_runs_twice", "late_completion_refused", "dead_run_never_comes_back"]
)
def test_the_enumeration_finds_a_planted_bug(deployed: Definitions, name: str) -> None:
    with planted(name):
        assert explore(deployed, depth=7).violations
