"""Claim: one runner for each task, the most urgent first, with the reason when there is none."""

from __future__ import annotations

from tests.factories import CHAIN, World
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.tasks.claim import Claimed, Refused
from trace_core.tasks.model import NotClaimed


def test_a_claimed_task_is_not_claimed_again(chain: World) -> None:
    assert len(chain.claim(10)) == 1
    assert chain.claim(10) == []


def test_one_event_makes_one_task_for_each_dependent_job(world: World) -> None:
    world.deploy(
        CHAIN
        + """
  - {name: d, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 0}
"""
    )
    world.feed(1, 2, 3)
    made = world.claim(10)
    jobs = [world.payloads.job(claim.job_id).job["name"] for claim in made]
    assert sorted(jobs) == ["b", "b", "b", "d", "d", "d"]
    assert len({claim.task_id for claim in made}) == 6


def test_the_claim_says_what_made_the_task(chain: World) -> None:
    source = chain.feed(42)
    claim = chain.claim_one()
    assert claim.trigger is not None
    assert claim.trigger.producer_task_id == source.task_id
    assert claim.trigger.scope.cursor == 42


def test_the_oldest_task_of_all_jobs_goes_first(chain: World) -> None:
    chain.feed(1, 2, 3)
    first = chain.claim_one()
    chain.complete(first, events=[chain.event("b", 1)])
    order = [chain.payloads.job(claim.job_id).job["name"] for claim in chain.claim(10)]
    assert order == ["b", "b", "c"]


def test_live_work_goes_before_backfill_however_old(world: World) -> None:
    world.deploy(
        CHAIN.replace("name: b,", "name: b, priority: backfill,")
        + """
  - {name: d, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 0}
"""
    )
    world.feed(1, 2)
    jobs = [world.payloads.job(world.claim_one().job_id).job["name"] for _ in range(4)]
    assert jobs == ["d", "d", "b", "b"]


def test_a_claim_by_id_says_why_not(chain: World) -> None:
    source = chain.feed(1)
    claim = chain.claim_one()
    unknown = chain.ids.uuid()
    ids = [claim.task_id, unknown]
    results = chain.claims.claim_ids(chain.org, ids, "worker-2")  # type: ignore[arg-type]
    assert [getattr(each, "reason", None) for each in results] == [
        NotClaimed.ALREADY_RUNNING,
        NotClaimed.NOT_FOUND,
    ]
    chain.complete(claim)
    (done,) = chain.claims.claim_ids(chain.org, [claim.task_id], "worker-2")
    assert done == Refused(claim.task_id, NotClaimed.COMPLETED)
    chain.report(source, "Failed")
    (waiting,) = chain.claims.claim_ids(chain.org, [source.task_id], "worker-2")
    assert waiting == Refused(source.task_id, NotClaimed.NOT_DUE)


def test_a_claim_by_id_gets_that_task(chain: World) -> None:
    chain.feed(1, 2, 3)
    wanted = chain.rows("SELECT task_id FROM ready ORDER BY task_id")[1].task_id
    (claim,) = chain.claims.claim_ids(chain.org, [wanted], "worker-2")
    assert isinstance(claim, Claimed)
    assert claim.task_id == wanted


def test_nothing_of_a_paused_dag_is_claimed(chain: World) -> None:
    chain.feed(1)
    chain.deploys.pause(chain.org, "chain", SYSTEM)
    assert chain.claim(10) == []
    task_id = chain.rows("SELECT task_id FROM ready")[0].task_id
    assert chain.claims.claim_ids(chain.org, [task_id], "worker-1") == [
        Refused(task_id, NotClaimed.HELD)
    ]
    chain.clear_outbox()
    chain.deploys.resume(chain.org, "chain", SYSTEM)
    assert chain.pending_wakes() == ["worker"]
    assert len(chain.claim(10)) == 1


def test_an_org_claims_only_its_own_tasks(chain: World) -> None:
    chain.feed(1)
    other = chain.another_org()
    chain.deploy(CHAIN, other)
    (claim,) = chain.claims.claim(other, Runtime.WORKER, 10, "worker-9")
    assert claim.org_id == other
    mine = chain.rows("SELECT task_id FROM ready WHERE job_id <> %(j)s", j=claim.job_id)[0].task_id
    assert chain.claims.claim_ids(other, [mine], "worker-9") == [
        Refused(mine, NotClaimed.NOT_FOUND)
    ]


def test_pinned_inputs_are_recorded_at_the_start(chain: World) -> None:
    chain.feed(1)
    claim = chain.claim_one()
    (pin,) = chain.views.task(chain.org, claim.task_id)["inputs"]
    assert pin["dataset_version"] == chain.output("a")[1]
    assert (pin["attempt"], pin["input_index"]) == (1, 0)
