"""Deploy: a first version, once; nothing is half applied."""

from __future__ import annotations

import pytest

from tests.factories import CHAIN, World
from trace_core.dag.problems import DagInvalid
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Invalid


def test_deploying_the_same_definition_again_changes_nothing(world: World) -> None:
    first = world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM)
    commented = "# a comment\n" + CHAIN.replace("name: chain", "name:   chain")
    second = world.deploys.deploy(world.org, commented, "chain.yaml", SYSTEM)
    assert (first.created, second.created) == (True, False)
    assert second.version == 1
    assert world.count("dag_versions") == 1


def test_a_bad_file_writes_nothing(world: World) -> None:
    with pytest.raises(DagInvalid):
        world.deploy(CHAIN.replace("operator: work", "operator: wrok"))
    assert world.count("dags") == 0


def test_a_dataset_that_nobody_publishes_is_refused_and_nothing_written(world: World) -> None:
    with pytest.raises(Invalid, match="deploy the one that does first"):
        world.deploy(CHAIN.replace("{from: {job: a, output: 0}}", "{from: {dataset: nowhere}}"))
    assert world.count("dags") == 0
    assert world.count("tasks") == 0


def test_a_published_name_belongs_to_the_dag_that_has_it(world: World) -> None:
    world.deploy(CHAIN + "publish: {numbers: {from: {job: a, output: 0}}}\n")
    with pytest.raises(Invalid, match="belongs to another DAG"):
        world.deploy(
            CHAIN.replace("name: chain", "name: second")
            + "publish: {numbers: {from: {job: a, output: 0}}}\n"
        )


def test_two_orgs_deploy_the_same_file_apart(chain: World) -> None:
    other = chain.another_org()
    chain.deploy(CHAIN, other)
    assert chain.count("dags") == 2
    assert [dag["name"] for dag in chain.views.dags(other)] == ["chain"]
