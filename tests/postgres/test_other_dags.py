"""Datasets that other DAGs read: their past, their swaps, and builds that stand on them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import CHAIN, World
from tests.postgres.test_rebuild import EDITED, deploys, fed, settle
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Invalid

__all__ = ["fed"]

PUBLISHED = "publish: {numbers: {from: {job: b, output: 0}}}\n"
READER = """
version: 1
name: reader
jobs:
  - {name: r, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {dataset: numbers}}], outputs: 1, update_strategy: replace}
  - {name: s, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: r, output: 0}}], outputs: 1, update_strategy: replace}
"""


@pytest.fixture
def shared(fed: Any) -> tuple[World, Any]:
    """The chain publishes what b makes, and has five cursors of it."""
    world, source = fed
    world.deploys.deploy(world.org, CHAIN + PUBLISHED, "chain.yaml", SYSTEM)
    return world, source


def tasks_of(world: World, job: str) -> list[tuple[str, str]]:
    return [
        (row.scope, row.source or "")
        for row in world.rows(
            "SELECT t.scope, i.source FROM tasks t JOIN jobs j USING (job_id)"
            " LEFT JOIN invalidations i USING (event_id) WHERE j.name = %(job)s ORDER BY t.task_id",
            job=job,
        )
    ]


def test_publishing_starts_nothing(shared: tuple[World, Any]) -> None:
    world, _source = shared
    assert [row.status for row in deploys(world)] == ["Done", "Draining"]
    assert settle(world) == []
    assert world.count("publications") == 1


def test_a_new_reader_works_on_what_is_there_and_on_what_comes(shared: tuple[World, Any]) -> None:
    world, source = shared
    world.deploys.deploy(world.org, READER, "reader.yaml", SYSTEM)
    world.accept(source, [world.event("a", 5)])
    settle(world)
    assert sorted(scope for scope, _ in tasks_of(world, "r")) == [f"c{n}" for n in range(6)]
    assert sorted(scope for scope, _ in tasks_of(world, "s")) == [f"c{n}" for n in range(6)]


def test_readers_elsewhere_are_told_once_of_a_cutover_and_of_a_rollback(
    shared: tuple[World, Any],
) -> None:
    world, _source = shared
    world.deploys.deploy(world.org, READER, "reader.yaml", SYSTEM)
    settle(world)
    before = len(tasks_of(world, "r"))
    world.deploys.deploy(world.org, EDITED + PUBLISHED, "chain.yaml", SYSTEM)
    settle(world)
    world.deploys.rollback(world.org, "chain", SYSTEM)
    settle(world)
    assert tasks_of(world, "r")[before:] == [("", "cutover"), ("", "rollback")]
    reasons = world.rows("SELECT reason, scope FROM invalidations ORDER BY event_id")
    assert [tuple(row) for row in reasons] == [
        ("cutover of chain", ""), ("rollback of chain", "")
    ]  # fmt: skip


def test_events_of_the_swapped_version_reach_the_reader_and_those_of_the_old_one_do_not(
    shared: tuple[World, Any],
) -> None:
    world, source = shared
    world.deploys.deploy(world.org, READER, "reader.yaml", SYSTEM)
    settle(world)
    world.deploys.deploy(world.org, EDITED + PUBLISHED, "chain.yaml", SYSTEM)
    settle(world)
    before = len(tasks_of(world, "r"))
    world.accept(source, [world.event("a", 5)])
    settle(world)
    assert tasks_of(world, "r")[before:] == [("c5", "")]


def test_a_build_on_an_external_dataset_that_is_cut_over_meanwhile_is_refused(
    shared: tuple[World, Any],
) -> None:
    world, _source = shared
    world.deploys.deploy(world.org, READER, "reader.yaml", SYSTEM)
    settle(world)
    r = "{name: r, activation: reactive, runtime: worker, operator: "
    edited = READER.replace(r + "work", r + "rework")
    world.deploys.deploy(world.org, edited, "reader.yaml", SYSTEM)
    world.deploys.set_deploy_paused(world.org, "reader", SYSTEM, paused=True)
    world.deploys.deploy(world.org, EDITED + PUBLISHED, "chain.yaml", SYSTEM)
    settle(world)
    world.deploys.set_deploy_paused(world.org, "reader", SYSTEM, paused=False)
    settle(world)
    found = {(row.number, row.status): row.error for row in deploys(world)}
    assert "has cut over b.0" in str(found[2, "ChecksFailed"])
    world.deploys.cancel_deploy(world.org, "reader", SYSTEM)
    world.deploys.deploy(world.org, edited, "reader.yaml", SYSTEM)
    settle(world)
    assert world.rows("SELECT count(*) AS n FROM deploys WHERE ended_at IS NULL")[0].n == 0


def test_a_hidden_name_cannot_be_read_anew_and_stays_with_its_dag(
    shared: tuple[World, Any],
) -> None:
    world, _source = shared
    world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM)
    with pytest.raises(Invalid, match="publishes a dataset numbers"):
        world.deploys.deploy(world.org, READER, "reader.yaml", SYSTEM)
    thief = CHAIN.replace("name: chain", "name: thief") + PUBLISHED
    with pytest.raises(Invalid, match="belongs to another DAG"):
        world.deploys.deploy(world.org, thief, "thief.yaml", SYSTEM)
