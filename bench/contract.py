"""The full contract: accept, route, queue, claim, complete with an event, make the next task."""

from __future__ import annotations

import itertools
import time
from typing import Any

from bench.crew import Count
from bench.world import Site, World, dag_text, new_site

WORKERS = (1, 2)
BATCHES = (1, 100)


def contract_site(dsn: str, home: Any) -> Site:
    """A DAG for each worker, so that they share queues and tables but not a source's lease."""
    dags = [dag_text(f"contract{n}", ["b", "c"], lambda_tail=True) for n in range(max(WORKERS))]
    return new_site(dsn, home, dags)


def run_contract(world: World, index: int, barrier: Any, batch: int, seconds: float) -> Count:
    """Tasks of `b`, each from its event to the task of `c` behind it."""
    source = world.site.sources[f"contract{index}.source"]
    # Cursors that no other round has used: the dedupe key would swallow them.
    cursors = itertools.count(time.time_ns() // 1000, batch)

    def turn() -> int:
        world.accept(source, next(cursors), batch)
        claimed = world.claim(batch)
        if claimed:
            world.complete(claimed)
        return len(claimed)

    for _ in range(3):
        turn()
    barrier.wait(60)
    number, started_at = 0, time.monotonic()
    while time.monotonic() - started_at < seconds:
        number += turn()
    return Count(number, started_at, time.monotonic())
