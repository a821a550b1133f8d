"""Every order of reserve, start, report, reap and retry, as far as fits into a test; all of them
are walked by `make simulate EXHAUSTIVE=1`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer
from tests.simulation.database import Definitions, deploy_shapes
from tests.simulation.exhaustive import explore
from tests.simulation.planted import planted

DEPTH = 10


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


@pytest.mark.parametrize(
    "name", ["duplicate_invoke_runs_twice", "late_completion_refused", "dead_run_never_comes_back"]
)
def test_the_enumeration_finds_a_planted_bug(deployed: Definitions, name: str) -> None:
    with planted(name):
        assert explore(deployed, depth=7).violations
