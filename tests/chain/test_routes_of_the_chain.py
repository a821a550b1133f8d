"""Who is told what in the DAG of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chain.follow_world import FollowWorld
from tests.postgres_server import PostgresServer
from trace_core.identity.model import SYSTEM

DAG = Path(__file__).parents[2] / "dags" / "chain.dag.yaml"
EVENTS = """
SELECT p.name AS producer, v.output_index, j.name AS reader, r.triggers
  FROM routes r JOIN jobs j ON j.job_id = r.job_id
  JOIN dataset_versions v ON v.dataset_version = r.dataset_version
  JOIN jobs p ON p.job_id = v.job_id
"""


@pytest.fixture
def deployed(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[FollowWorld]:
    state, data = postgres_server.clone(), postgres_server.clone("data")
    world = FollowWorld(state, data, tmp_path, "http://127.0.0.1:1")
    try:
        text = DAG.read_text(encoding="utf-8")
        world.app.deploys.deploy(world.org, text, DAG.name, SYSTEM)
        yield world
    finally:
        world.close()
        postgres_server.drop(state)
        postgres_server.drop(data)


def test_a_reorg_is_told_to_the_aggregators_and_nobody_gets_a_task_for_half_a_range(
    deployed: FollowWorld,
) -> None:
    found = {
        (row.producer, row.output_index, row.reader) for row in deployed.app.state.read(EVENTS, {})
    }
    assert {each for each in found if each[0] in ("follow", "backfill", "compact")} == {
        ("follow", 0, "hot_ranges"),
        ("follow", 0, "ranges"),
        ("backfill", 0, "ranges"),
    }
    assert {(producer, reader) for producer, _, reader in found} >= {
        ("hot_ranges", "compact"),
        ("ranges", "transfers"),
        ("ranges", "integrity"),
        ("transfers", "volume"),
    }
