"""Events during a build, with rows in both layouts: what is current in the end is what a clean
build followed by a replay would give. `TRACE_DRILL_EVENTS=5000` runs it at the size of a bad day.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.row_world import RowWorld, expected

EVENTS = int(os.environ.get("TRACE_DRILL_EVENTS", "120"))
SLICE = 50


@pytest.fixture
def world(state_dsn: str, data_dsn: str, tmp_path: Path) -> Iterator[RowWorld]:
    found = RowWorld(state_dsn, data_dsn, tmp_path)
    yield found
    found.close()


def blocks(start: int, count: int, fork: str = "a") -> dict[int, str]:
    return {number: f"{fork}{number}" for number in range(start, start + count)}


def inject(world: RowWorld, count: int, *, rng: random.Random, between: bool) -> None:
    """New blocks, and now and then other content for blocks that there are."""
    left = count
    while left:
        size = min(SLICE, left)
        new = blocks(len(world.blocks), size * 4 // 5)
        known = sorted(world.blocks)
        rewritten = {
            number: f"{rng.choice('bcd')}{number}"
            for number in rng.sample(known, min(len(known), size - len(new)))
        }
        world.announce({**new, **rewritten})
        left -= size
        if between:
            world.app.builds.run_once()
            world.work(20)


def check(world: RowWorld, code: int) -> None:
    facts, sums = expected(world.blocks, code)
    found_facts, found_sums = world.plain_rows()
    assert found_facts == facts
    assert found_sums == sums


def test_events_during_a_build_and_across_rollbacks_are_reflected_exactly(world: RowWorld) -> None:
    rng = random.Random(11)  # noqa: S311
    world.deploy(1)
    world.announce(blocks(0, 20))
    world.settle()
    check(world, 1)

    assert set(world.deploy(2).builds) == {"facts", "sums"}
    inject(world, EVENTS, rng=rng, between=True)
    world.settle()
    check(world, 2)

    # After catch-up, and with events that were held during the build.
    inject(world, SLICE, rng=rng, between=False)
    world.rollback()
    world.settle()
    check(world, 1)

    before = world.ran.copy()
    world.deploy(2)
    world.settle()
    check(world, 2)
    world.rollback()
    world.settle()
    check(world, 1)
    # Forward and back again with nothing missed: the second way back repeats nothing.
    again = world.ran.copy()
    world.deploy(2)
    world.rollback()
    world.settle()
    assert world.ran == again
    assert again["facts"] - before["facts"] <= SLICE
    check(world, 1)


def test_a_reorg_during_the_build_ends_with_the_last_content(world: RowWorld) -> None:
    world.deploy(1)
    world.announce(blocks(0, 10, "a"))
    world.settle()
    world.deploy(2)
    world.announce(blocks(3, 4, "b"))
    world.app.builds.run_once()
    world.work(5)
    world.announce(blocks(3, 4, "a"))
    world.settle()
    check(world, 2)
    world.rollback()
    world.settle()
    check(world, 1)
