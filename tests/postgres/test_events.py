"""Events: accepted once, routed once to each dependent job, announced again with a new revision."""

from __future__ import annotations

from tests.factories import CHAIN, World
from trace_core.ports.waker import Function


def test_the_same_event_twice_makes_one_task(chain: World) -> None:
    source = chain.feed(1)
    again = chain.accept(source, [chain.event("a", 1), chain.event("a", 2)])
    assert (again.accepted, again.duplicates, again.tasks_made) == (1, 1, 1)
    assert chain.count("ready") == 2


def test_the_same_event_twice_in_one_call_makes_one_task(chain: World) -> None:
    source = chain.claim_one()
    accepted = chain.accept(source, [chain.event("a", 1), chain.event("a", 1)])
    assert (accepted.accepted, accepted.tasks_made) == (1, 1)


def test_a_new_revision_of_a_scope_is_announced_again(chain: World) -> None:
    source = chain.feed(1)
    again = chain.accept(source, [chain.event("a", 1, revision=1)])
    assert (again.accepted, again.tasks_made) == (1, 1)


def test_a_cursor_and_a_partition_of_the_same_name_are_two_scopes(chain: World) -> None:
    source = chain.feed(7)
    dataset, version = chain.output("a")
    partition = chain.event("a", 7).model_copy(update={"cursor": None, "partition_key": "7"})
    assert partition.dataset_uuid == dataset
    assert partition.dataset_version == version
    assert chain.accept(source, [partition]).tasks_made == 1


def test_accepting_and_making_tasks_wakes_the_relay_once(chain: World) -> None:
    chain.clear_outbox()
    source = chain.claim_one()
    chain.waker.woken.clear()
    chain.accept(source, [chain.event("a", cursor) for cursor in range(50)])
    assert chain.waker.woken == [Function.OUTBOX_RELAY]
    (row,) = chain.rows("SELECT target, task_ids FROM outbox")
    assert row.target == "worker"
    assert len(row.task_ids) == 10


def test_an_event_of_an_output_that_nobody_reads_is_recorded_and_makes_no_task(
    chain: World,
) -> None:
    chain.feed(1)
    b = chain.claim_one()
    chain.complete(b, events=[chain.event("b", 1)])
    c = chain.claim_one()
    chain.complete(c, events=[chain.event("c", 1)])
    assert chain.count("events") == 3
    assert chain.claim(10) == []


def test_an_input_without_trigger_makes_no_task(world: World) -> None:
    world.deploy(
        CHAIN
        + """
  - {name: d, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: b, output: 0}}, {from: {job: a, output: 0}, as: hot}], outputs: 0}
"""
    )
    source = world.claim_one()
    assert world.accept(source, [world.event("a", 1)]).tasks_made == 1


def test_another_dag_reads_a_published_dataset(world: World) -> None:
    world.deploy(CHAIN + "publish: {numbers: {from: {job: a, output: 0}}}\n")
    world.deploy(
        """
version: 1
name: reader
jobs:
  - {name: r, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {dataset: numbers}}], outputs: 0}
"""
    )
    world.feed(1)
    jobs = {world.payloads.job(claim.job_id).job["name"] for claim in world.claim(10)}
    assert jobs == {"b", "r"}
