"""A bounded recompute of one job: as many tasks as scopes, a window at a time, resumable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import CHAIN, World
from tests.postgres.test_rebuild import run_all, settle
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Conflict, Invalid, NotFound


@pytest.fixture
def fed(chain: World) -> World:
    source = chain.claim_one()
    chain.accept(source, [chain.event("a", n) for n in range(20)])
    settle(chain)
    return chain


def progress(world: World, number: int = 1) -> dict[str, Any]:
    (found,) = [
        each for each in world.backfills.list(world.org, "chain") if each["number"] == number
    ]
    return found


def drain(world: World) -> list[tuple[str, str]]:
    done: list[tuple[str, str]] = []
    while world.backfills.chore():
        done += run_all(world)
    return done + run_all(world)


def test_every_scope_in_the_range_is_computed_again_once(fed: World) -> None:
    begun = fed.backfills.begin(fed.org, "chain", "c", 5, 9, SYSTEM, reason="a bug in c")
    assert (begun.number, begun.scopes) == (1, 5)
    done = drain(fed)
    assert [scope for _, scope in done if scope] == [f"c{n}" for n in range(5, 10)]
    found = progress(fed)
    assert (found["status"], found["completed"], found["scopes"]) == ("Done", 5, 5)


def test_what_it_computes_again_reaches_everybody_downstream(fed: World) -> None:
    fed.backfills.begin(fed.org, "chain", "b", 5, 9, SYSTEM)
    assert sorted(scope for _, scope in drain(fed)) == sorted(2 * [f"c{n}" for n in range(5, 10)])


def test_at_most_a_window_of_tasks_is_open(fed: World) -> None:
    fed.backfills.begin(fed.org, "chain", "c", 0, 19, SYSTEM, window=3)
    assert fed.backfills.chore() == 3
    assert fed.backfills.chore() == 0
    assert fed.count("ready") == 3
    assert len(run_all(fed)) == 3
    assert fed.backfills.chore() == 3


def test_a_paused_one_makes_no_more_tasks_and_a_resumed_one_repeats_none(fed: World) -> None:
    fed.backfills.begin(fed.org, "chain", "c", 0, 19, SYSTEM, window=4)
    fed.backfills.chore()
    first = run_all(fed)
    fed.backfills.pause(fed.org, "chain", 1, SYSTEM)
    assert fed.backfills.chore() == 0
    fed.backfills.resume(fed.org, "chain", 1, SYSTEM)
    rest = drain(fed)
    assert sorted(scope for _, scope in first + rest) == sorted(f"c{n}" for n in range(20))


def test_a_canceled_one_ends_its_open_tasks_and_keeps_what_is_done(fed: World) -> None:
    fed.backfills.begin(fed.org, "chain", "c", 0, 19, SYSTEM, window=4)
    fed.backfills.chore()
    assert fed.backfills.cancel(fed.org, "chain", 1, SYSTEM) == 4
    assert drain(fed) == []
    assert progress(fed)["status"] == "Canceled"
    with pytest.raises(Conflict):
        fed.backfills.resume(fed.org, "chain", 1, SYSTEM)


def test_what_cannot_be_backfilled_is_refused_with_a_way_out(fed: World) -> None:
    with pytest.raises(Invalid, match="trace dag trigger"):
        fed.backfills.begin(fed.org, "chain", "a", 0, 1, SYSTEM)
    with pytest.raises(NotFound):
        fed.backfills.begin(fed.org, "chain", "nobody", 0, 1, SYSTEM)
    with pytest.raises(Invalid, match="Nothing that triggers b"):
        fed.backfills.begin(fed.org, "chain", "b", 100, 200, SYSTEM)
    assert fed.count("backfills") == 0


def test_a_backfill_waits_while_its_job_is_replaced_and_goes_on_after_a_rollback(
    fed: World,
) -> None:
    fed.backfills.begin(fed.org, "chain", "b", 0, 19, SYSTEM, window=5)
    fed.backfills.chore()
    edited = CHAIN.replace(
        "{name: b, activation: reactive, runtime: worker, operator: work",
        "{name: b, activation: reactive, runtime: worker, operator: rework",
    )
    fed.deploys.deploy(fed.org, edited, "chain.yaml", SYSTEM)
    settle(fed)
    assert fed.backfills.chore() == 0
    fed.deploys.rollback(fed.org, "chain", SYSTEM)
    settle(fed)
    drain(fed)
    assert progress(fed)["completed"] == 20
