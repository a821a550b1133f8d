"""A worker pool of k slots under two claiming processes: never more than k tasks at once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.crew import Count, Crew, rate
from bench.world import SilentWaker, Site, World, clear_work, dag_text, new_site

SLOTS = 8


@dataclass(frozen=True)
class Metered:
    slots: int
    most_leases: int
    """The most leases of the pool that any reading of the database found."""
    readings: int
    held_twice: int
    """Slots that a reading found in the hands of two leases."""
    tasks_per_second: float


def pool_site(dsn: str, home: Path) -> Site:
    return new_site(dsn, home, [dag_text("metered", ["b"], slots=SLOTS)])


def work_metered(world: World, index: int, barrier: Any, seconds: float) -> Count:
    # Each asks for more than its half, so that the two compete for the last slots.
    limit = SLOTS - 2
    barrier.wait(60)
    number, started_at = 0, time.monotonic()
    while time.monotonic() - started_at < seconds:
        if claimed := world.claim(limit, f"bench-{index}"):
            world.complete(claimed)
            number += len(claimed)
    return Count(number, started_at, time.monotonic())


def measure_pool(site: Site, crew: Crew, seconds: float, tasks: int) -> Metered:
    clear_work(site.dsn)
    world = World(site, waker=SilentWaker())
    try:
        first = time.time_ns() // 1000
        for at in range(0, tasks, 500):
            world.accept(site.sources["metered.source"], first + at, min(500, tasks - at))
    finally:
        world.close()
    crew.start(2, work_metered, seconds)
    most = held_twice = readings = 0
    job_id = site.jobs["metered.b"]
    ends_at = time.monotonic() + seconds
    with psycopg.connect(site.dsn, autocommit=True, prepare_threshold=0) as connection:
        while time.monotonic() < ends_at:
            row = connection.execute(
                "SELECT count(*), count(slot_id) - count(DISTINCT slot_id) FROM leases"
                " WHERE job_id = %s",
                [job_id],
            ).fetchone()
            assert row is not None
            most, held_twice, readings = max(most, row[0]), max(held_twice, row[1]), readings + 1
            time.sleep(0.002)
    return Metered(SLOTS, most, readings, held_twice, rate(crew.results(2)))
