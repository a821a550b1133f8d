"""Who holds capacity and slots, and whether the counters say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle


STRAY_SECONDS = 300.0
"""So long may a lease be unknown to a new counter, restarts of the reaper included."""


@dataclass(frozen=True)
class Lease:
    task_id: str
    job_id: str
    attempt: int
    sequence: int
    token: str | None
    started: bool
    canceled: bool
    expires: float
    slot_id: str | None
    priority: int
    start_token: str | None
    worker_id: str
    metered: bool


def check_holders(
    oracle: Oracle, leases: dict[str, Lease], slots: list[Any], counters: list[Any], kept: list[Any]
) -> None:
    """Nobody beyond the limits, and every counter says what is really held."""
    holders = [(lease.task_id, lease.job_id, lease.priority) for lease in leases.values()]
    running: dict[str, list[int]] = {}
    strays: dict[str, float] = {}
    quotas = oracle.quotas.ids
    for task, job_id, priority in [*holders, *kept]:
        job = oracle.jobs[job_id]
        quota = quotas.get(str(job.org_id))
        capacities = [*map(str, job.capacity_ids), *([quota] if quota else [])]
        if capacities and task in leases and not leases[task].metered:
            # Claimed while its job was not metered. The reaper charges it, if nobody did before.
            strays[task] = oracle.strays.get(task, oracle.world.seconds)
            age = oracle.world.seconds - strays[task]
            oracle.must(age < STRAY_SECONDS, f"{oracle.name(task)}: no counter ever counted it")
            continue
        for capacity in capacities:
            held = running.setdefault(capacity, [0, 0])
            held[0] += 1
            held[1] += priority
    for org, quota in quotas.items():
        count = running[quota][0] if quota in running else 0
        limit = oracle.quotas.allowed_at_once(org, count)
        oracle.must(limit is None or count <= limit, f"{count} holders, the quota allows {limit}")
    for capacity_id, (count, _) in running.items():
        limit = oracle.limits.get(capacity_id)
        # Where a limit was lowered below what runs, no more come; nor where a new build is limited
        # while tasks of one that was given up still run.
        known = UUID(capacity_id) in oracle.world.definitions.limits
        before = oracle.held.get(capacity_id, 0 if known else count)
        within = limit is None or count <= max(limit, before)
        oracle.must(within, f"{count} holders, {limit} allowed")
    oracle.held = {capacity_id: count for capacity_id, (count, _) in running.items()}
    oracle.strays = strays
    started = sum(oracle.jobs[job].runtime == "lambda" for _, job, _ in holders)
    room = oracle.world.runtime.concurrency
    oracle.must(started <= room, f"{started} lambda tasks are held, there is room for {room}")
    counted = {row[0]: [row[1], row[2]] for row in counters}
    drifts = {}
    for capacity in counted.keys() | running.keys():
        says, holds = counted.get(capacity, [0, 0]), running.get(capacity, [0, 0])
        if says == holds:
            continue
        # A task ended while its job was given the counter. The reaper counts again.
        drifts[capacity] = oracle.drifts.get(capacity, oracle.world.seconds)
        age = oracle.world.seconds - drifts[capacity]
        crossed = oracle.world.crossing.crossed or capacity in oracle.drifts
        too_many = says[0] >= holds[0] and says[1] >= holds[1]
        excused = crossed and too_many and age < STRAY_SECONDS
        oracle.must(excused, f"counters {counted}, holders {running}")
    oracle.drifts = drifts
    pooled = {task: job for task, job, _ in [*holders, *kept] if oracle.jobs[job].pool_id}
    held_slots = {task: slot for slot, task in slots}
    oracle.must(
        set(held_slots) == set(pooled),
        f"slots held by {sorted(map(oracle.name, held_slots))}, "
        f"needed by {sorted(map(oracle.name, pooled))}",
    )
    for task, lease in leases.items():
        if task in pooled:
            oracle.must(lease.slot_id == held_slots[task], f"{oracle.name(task)}: another's slot")
