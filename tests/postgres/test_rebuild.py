"""Edits of a deployed DAG: build beside, cut over, roll back, and nothing lost on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import CHAIN, World
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import DeployUnderWay, Invalid
from trace_core.registry.purge import SQL as PURGE
from trace_core.registry.purge import PurgeBegan
from trace_core.tasks.claim import Claimed

B = "{name: b, activation: reactive, runtime: worker, operator: "
EDITED = CHAIN.replace(B + "work", B + "rework")


def run_all(world: World, limit: int = 1000) -> list[tuple[str, str]]:
    """Claim and complete whatever is ready but the source, each announcing what triggered it."""
    done = []
    for _ in range(limit):
        claims = [c for c in world.claim(50) if c.trigger is not None]
        if not claims:
            return done
        for claim in claims:
            job = world.payloads.build([claim])[0]
            outputs = [
                {
                    "dataset_uuid": out["dataset_uuid"],
                    "dataset_version": out["dataset_version"],
                    **claim.trigger.scope.fields(),
                    "revision": claim.trigger.revision,
                }
                for out in job["outputs"]
            ]
            result = world.complete(claim, events=outputs)
            assert result.error is None, result.error
            done.append((job["operator"], claim.trigger.scope.key))
    raise AssertionError("there is no end to it")


def settle(world: World, passes: int = 30) -> list[tuple[str, str]]:
    """Let builds, sweeps and workers go on until nothing happens any more."""
    done: list[tuple[str, str]] = []
    idle = 0
    for _ in range(passes):
        report = world.builds.run_once()
        ran = run_all(world)
        done += ran
        idle = 0 if ran or report.did_something else idle + 1
        if idle > 3:
            return done
    raise AssertionError("it never settles")


def deploys(world: World) -> list[Any]:
    return world.rows("SELECT number, kind, status, error FROM deploys ORDER BY number")


def held_source(world: World) -> Claimed:
    """The source, claimed once and kept, so that events can be announced at any time."""
    return world.claim_one()


@pytest.fixture
def fed(chain: World) -> tuple[World, Claimed]:
    """Five cursors through the whole chain, with the source still running its slice."""
    source = held_source(chain)
    chain.accept(source, [chain.event("a", n) for n in range(5)])
    settle(chain)
    return chain, source


def outputs_of(world: World, job: str) -> list[str]:
    """Scopes announced on the current version of a job's output, once for each event."""
    return [
        row.scope
        for row in world.rows(
            "SELECT e.scope FROM events e JOIN dataset_current c USING (dataset_version)"
            " JOIN datasets d ON d.dataset_uuid = c.dataset_uuid WHERE d.job_name = %(job)s"
            " ORDER BY e.number",
            job=job,
        )
    ]


def test_an_edit_is_built_beside_the_current_version_and_cut_over(fed: Any) -> None:
    world, _source = fed
    before = world.output("c")
    result = world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    assert (result.version, result.status, result.builds) == (2, "Building", ("b", "c"))
    assert world.output("c") == before
    done = settle(world)
    assert sorted(done) == sorted(
        [("rework", f"c{n}") for n in range(5)] + [("work", f"c{n}") for n in range(5)]
    )
    assert [row.status for row in deploys(world)] == ["Done", "Done"]
    assert world.output("c") != before
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(5)]


def test_live_work_of_the_subgraph_waits_and_goes_on_under_the_new_version(fed: Any) -> None:
    world, source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    world.accept(source, [world.event("a", n) for n in range(5, 8)])
    # The build has not begun: the new events wait, and nothing old runs.
    assert world.claim(50) == []
    done = settle(world)
    assert {scope for operator, scope in done if operator == "rework"} == {
        f"c{n}" for n in range(8)
    }
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(8)]
    assert world.count("ready") == 0


def test_a_rollback_restores_code_and_data_and_catches_up(fed: Any) -> None:
    world, source = fed
    first = world.output("c")
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    world.accept(source, [world.event("a", n) for n in range(5, 8)])  # held during the build
    settle(world)
    world.accept(source, [world.event("a", n) for n in range(8, 10)])
    settle(world)
    result = world.deploys.rollback(world.org, "chain", SYSTEM)
    assert result.version == 1
    assert world.output("c") == first
    done = settle(world)
    assert sorted(done) == sorted([("work", f"c{n}") for n in range(5, 10)] * 2)
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(10)]
    assert [row.status for row in deploys(world)] == ["Done"] * 3


def test_forward_back_and_forward_again_repeats_nothing_that_is_done(fed: Any) -> None:
    world, source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    world.deploys.rollback(world.org, "chain", SYSTEM)
    assert settle(world) == []
    again = world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    assert (again.version, again.builds) == (2, ())
    assert settle(world) == []
    world.accept(source, [world.event("a", 5)])
    world.deploys.rollback(world.org, "chain", SYSTEM)
    done = settle(world)
    assert done == [("work", "c5"), ("work", "c5")]
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    assert settle(world) == [("rework", "c5"), ("work", "c5")]


def test_a_canceled_build_is_taken_up_where_it_was(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    world.builds.run_once()
    (claim,) = world.claim(1)
    output = world.payloads.job(claim.job_id).outputs[0]
    world.complete(
        claim,
        events=[
            {
                "dataset_uuid": output.dataset_uuid,
                "dataset_version": output.dataset_version,
                **claim.trigger.scope.fields(),
            }
        ],
    )
    world.deploys.cancel_deploy(world.org, "chain", SYSTEM)
    assert settle(world) == []
    assert world.count("ready") == 0
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    done = settle(world)
    assert sorted(scope for operator, scope in done if operator == "rework") == sorted(
        {f"c{n}" for n in range(5)} - {claim.trigger.scope.key}
    )
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(5)]


def test_what_runs_for_a_replaced_version_is_canceled_and_comes_back_with_it(fed: Any) -> None:
    world, source = fed
    world.accept(source, [world.event("a", 5)])
    (old,) = world.claim(1)
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    beat = world.leases.heartbeat(world.org, old.fence)
    assert str(beat.status) == "Canceled"
    assert world.report(old, "Canceled").status == "Canceled"
    world.deploys.rollback(world.org, "chain", SYSTEM)
    assert settle(world) == [("work", "c5"), ("work", "c5")]


def test_a_build_keeps_to_its_limit_and_the_limit_ends_with_it(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM, concurrency=2)
    world.builds.run_once()
    assert len(world.claim(50)) == 2
    assert world.claim(50) == []
    world.pass_time(minutes=5)
    world.reaper.run_once()
    world.pass_time(minutes=5)
    world.dispatcher.run_once()
    settle(world)
    assert [row.status for row in deploys(world)] == ["Done", "Done"]
    assert all(row.capacity_ids == [] for row in world.rows("SELECT capacity_ids FROM jobs"))


def test_only_one_deploy_of_a_dag_is_built_at_a_time(fed: Any) -> None:
    world, _source = fed
    first = world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    same = world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    assert (same.created, same.deploy, same.status) == (False, first.deploy, "Building")
    with pytest.raises(DeployUnderWay, match="trace deploy cancel chain"):
        world.deploys.deploy(world.org, EDITED.replace("PerUpdate", "PerPartition"), "x", SYSTEM)
    with pytest.raises(DeployUnderWay):
        world.deploys.rollback(world.org, "chain", SYSTEM)


def test_a_rollback_needs_a_version_that_was_active(chain: World) -> None:
    with pytest.raises(Invalid, match="no earlier version"):
        chain.deploys.rollback(chain.org, "chain", SYSTEM)


def test_settings_change_without_a_build_and_come_back_with_a_rollback(fed: Any) -> None:
    world, _source = fed
    settings = "max_attempts: 7, scaling: {max_concurrency: 3}"
    changed = CHAIN.replace("{name: b,", f"{{name: b, {settings},")
    result = world.deploys.deploy(world.org, changed, "chain.yaml", SYSTEM)
    assert (result.version, result.builds) == (2, ())
    job = "SELECT max_attempts, capacity_ids FROM jobs WHERE name = 'b'"
    (row,) = world.rows(job)
    assert (row.max_attempts, len(row.capacity_ids)) == (7, 1)
    world.deploys.rollback(world.org, "chain", SYSTEM)
    (row,) = world.rows(job)
    assert row.max_attempts == 3
    assert world.rows("SELECT max_running FROM capacities")[0].max_running is None


def test_a_removed_job_leaves_and_comes_back(fed: Any) -> None:
    world, source = fed
    without = CHAIN[: CHAIN.index("  - {name: c")]
    result = world.deploys.deploy(world.org, without, "chain.yaml", SYSTEM)
    assert result.builds == ()
    world.accept(source, [world.event("a", 5)])
    assert settle(world) == [("work", "c5")]
    world.deploys.rollback(world.org, "chain", SYSTEM)
    assert settle(world) == [("work", "c5")]
    assert sorted(outputs_of(world, "c")) == [f"c{n}" for n in range(6)]


def test_routes_are_what_follows_from_versions_and_pointers(fed: Any) -> None:
    world, _source = fed
    columns = "dataset_version, job_id, route, priority, runtime, triggers"
    diff = f"(SELECT {columns} FROM {{}} EXCEPT SELECT {columns} FROM {{}})"  # noqa: S608

    def check() -> None:
        for pair in (("routes", "derived_routes"), ("derived_routes", "routes")):
            assert world.rows(diff.format(*pair)) == []

    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    check()
    settle(world)
    check()
    world.deploys.rollback(world.org, "chain", SYSTEM)
    check()


def test_a_failed_build_waits_for_a_retry_and_forgets_the_error_then(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    world.builds.run_once()
    (claim,) = world.claim(1)
    world.report(claim, "Failed", error_code="Broken", retryable=False)
    settle(world)
    assert deploys(world)[-1].error == (
        "1 tasks of the build failed; retry them, or cancel the deploy"
    )
    assert world.views.backlog().deploys_stuck == 1
    world.admin.retry(world.org, claim.task_id, SYSTEM)
    world.builds.run_once()
    assert (deploys(world)[-1].status, deploys(world)[-1].error) == ("Building", None)
    settle(world)
    assert deploys(world)[-1].status == "Done"


def test_a_purged_version_is_not_returned_to_and_its_definition_is_built_anew(fed: Any) -> None:
    world, source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    world.accept(source, [world.event("a", 5)])
    settle(world)
    gone = world.rows(
        "SELECT v.dataset_version FROM dataset_versions v JOIN jobs j USING (job_id)"
        " WHERE j.standing = 'retired' AND j.name = 'b'"
    )
    now = world.clock.now()
    for row in gone:
        params = {"dataset_version": row.dataset_version, "now": now}
        mark = "UPDATE dataset_versions SET purge_marked_at = %(now)s"
        world.state.write("test", f"{mark} WHERE dataset_version = %(dataset_version)s", params)
        world.state.write("test", PURGE["finish"], params)
    with pytest.raises(PurgeBegan):
        world.deploys.rollback(world.org, "chain", SYSTEM)
    again = world.deploys.deploy(world.org, CHAIN, "chain.yaml", SYSTEM)
    assert again.builds == ("b",)
    settle(world)
    assert sorted(outputs_of(world, "b")) == [f"c{n}" for n in range(6)]
    # Its reader was not purged, and has seen nothing of what took the purged one's place.
    assert {f"c{n}" for n in range(6)} == set(outputs_of(world, "c"))


def test_a_mark_for_purge_is_taken_back_by_whoever_needs_the_version(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, EDITED, "chain.yaml", SYSTEM)
    settle(world)
    world.state.write(
        "test",
        "UPDATE dataset_versions v SET purge_marked_at = %(now)s FROM jobs j"
        " WHERE j.job_id = v.job_id AND j.standing = 'retired'",
        {"now": world.clock.now()},
    )
    world.deploys.rollback(world.org, "chain", SYSTEM)
    marked = "SELECT count(*) AS n FROM dataset_versions WHERE purge_marked_at IS NOT NULL"
    assert world.rows(marked)[0].n == 0


def test_a_rollback_goes_by_the_order_of_switches_not_by_clocks(fed: Any) -> None:
    world, _source = fed
    world.deploys.deploy(world.org, CHAIN + "description: two\n", "chain.yaml", SYSTEM)
    world.pass_time(seconds=-5)  # another host, whose clock is behind
    world.deploys.deploy(world.org, CHAIN + "description: three\n", "chain.yaml", SYSTEM)
    world.pass_time(seconds=-5)
    world.deploys.deploy(world.org, CHAIN + "description: four\n", "chain.yaml", SYSTEM)
    assert world.deploys.rollback(world.org, "chain", SYSTEM).version == 3


def test_payloads_follow_the_settings_of_the_active_version(fed: Any) -> None:
    world, source = fed
    job = world.rows("SELECT job_id FROM jobs WHERE name = 'b'")[0].job_id
    assert world.payloads.job(job).job["timeout_seconds"] == 900
    changed = CHAIN.replace("{name: b,", "{name: b, timeout_seconds: 33,")
    world.deploys.deploy(world.org, changed, "chain.yaml", SYSTEM)
    world.pass_time(seconds=6)
    assert world.payloads.job(job).job["timeout_seconds"] == 33
    world.accept(source, [world.event("a", 5)])
    (claim,) = world.claim(1)
    assert world.payloads.build([claim])[0]["job"]["dag_version"] == 2
