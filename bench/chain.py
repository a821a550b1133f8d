"""Items through A -> B -> C: from the first event accepted to the last task of C completed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg

from bench.crew import Count, Crew
from bench.world import Site, World, dag_text, new_site

CHAIN_BATCHES = (100, 500)
_ACCEPT_BATCH = 500


def chain_site(dsn: str, home: Path) -> Site:
    return new_site(dsn, home, [dag_text("chain", ["a", "b", "c"])])


def run_chain(world: World, index: int, barrier: Any, batch: int, items: int) -> Count:
    """The first worker also announces; each claims whatever is most urgent until all is done."""
    source = world.site.sources["chain.source"]
    last = world.site.jobs["chain.c"]
    tail = 0
    first = time.time_ns() // 1000
    with psycopg.connect(world.site.dsn, autocommit=True, prepare_threshold=0) as connection:
        barrier.wait(60)
        started_at = time.monotonic()
        if index == 0:
            for at in range(0, items, _ACCEPT_BATCH):
                world.accept(source, first + at, min(_ACCEPT_BATCH, items - at))
        idle = 0
        while True:
            claimed = world.claim(batch)
            if claimed:
                world.complete(claimed)
                tail += sum(each.job_id == last for each in claimed)
                idle = 0
            elif idle and _nothing_open(connection):
                return Count(tail, started_at, time.monotonic())
            else:
                idle += 1
                time.sleep(0.001)


def _nothing_open(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM ready) OR EXISTS (SELECT FROM leases l JOIN tasks t"
        " ON t.task_id = l.task_id WHERE t.event_id IS NOT NULL)"
    ).fetchone()
    return row is not None and not row[0]


def measure_chain(crew: Crew, workers: int, batch: int, items: int) -> float:
    """Items per second."""
    counts = crew.run(workers, run_chain, batch, items)
    done = sum(count.number for count in counts)
    if done != items:
        raise RuntimeError(f"{items} items went in, {done} came out")
    elapsed = max(c.ended_at for c in counts) - min(c.started_at for c in counts)
    return items / elapsed
