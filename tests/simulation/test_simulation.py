"""A slice of the simulation for every run of the tests; `make simulate` runs the long one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer
from tests.simulation import engine, report
from tests.simulation.database import Definitions, deploy_shapes
from tests.simulation.faults import KINDS
from tests.simulation.planted import NAMES, planted

SCHEDULES = 40
WITH_QUOTA = (4, 15, 31)
PLANTED = (
    "no_fence_in_complete", "retry_without_wakeup", "late_completion_refused",
    "metering_overshoot", "event_and_tasks_apart",
)  # fmt: skip


@pytest.fixture(scope="module")
def deployed(postgres_server: PostgresServer) -> Iterator[Definitions]:
    dsn = postgres_server.clone()
    definitions = deploy_shapes(dsn)
    yield definitions
    definitions.state.close()
    postgres_server.drop(dsn)


def test_schedules_with_faults_break_no_promise(deployed: Definitions) -> None:
    outcomes = [engine.run(deployed, seed) for seed in range(1, SCHEDULES + 1)]
    found = report.summary(outcomes, 1.0)
    assert found["violations"] == []
    assert found["fewest_tasks"] >= 30
    assert found["fewest_faults"] >= 10
    assert sum(found["faults"][kind] > 0 for kind in KINDS) >= len(KINDS) - 3


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(deployed: Definitions, name: str) -> None:
    assert engine.catch(deployed, name, seed=1).seed is not None


def test_a_failing_seed_fails_again_in_the_very_same_way(deployed: Definitions) -> None:
    caught = engine.catch(deployed, "double_claim", seed=1)
    assert caught.seed is not None
    with planted("double_claim"):
        first = engine.run(deployed, caught.seed)
        # Another schedule in between leaves other traces in the tables than a fresh database has.
        engine.run(deployed, caught.seed + 1)
        second = engine.run(deployed, caught.seed)
    assert first.violation is not None
    assert first.trace == second.trace


def test_a_schedule_does_not_depend_on_those_before_it(deployed: Definitions) -> None:
    alone = engine.run(deployed, 1001).trace
    engine.run(deployed, 1002)
    assert engine.run(deployed, 1001).trace == alone


def test_a_schedule_does_not_depend_on_where_rows_lie(deployed: Definitions) -> None:
    """Seeds with a quota: each release wakes every job of the org, in the order of their pages."""
    before = [engine.run(deployed, seed).trace for seed in WITH_QUOTA]
    with deployed.state.connection() as connection:
        for job_id in sorted(deployed.jobs, reverse=True):
            connection.execute("UPDATE jobs SET name = name WHERE job_id = %s", [job_id])
    assert [engine.run(deployed, seed).trace for seed in WITH_QUOTA] == before


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_still_matches_the_services(name: str) -> None:
    with planted(name) as bug:
        assert bug.says
