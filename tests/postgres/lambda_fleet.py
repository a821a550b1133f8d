"""Lambda as a platform sees it: it takes every invoke, runs a few at once, and queues the rest."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.factories import CHAIN, World
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import Relay
from trace_core.ports.waker import Function
from trace_core.tasks.api import EventIn, StartRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.invoke import invoke_ready

LAMBDA = CHAIN.replace(
    "name: b, activation: reactive, runtime: worker",
    "name: b, activation: reactive, runtime: lambda",
)
STEP = timedelta(seconds=30)
RUN = 3 * STEP
"""Longer than a reservation, shorter than a lease."""


@dataclass(frozen=True)
class _Run:
    claim: Claimed
    ends_at: datetime


class Fleet:
    """Runs of job `b`, begun and ended by the clock. Relays run when they are woken, not else."""

    def __init__(self, world: World, *, size: int, concurrency: int | None, relays: int = 2):
        self.world, self.size = world, size
        self.most_held = 0
        self.refused = 0
        """Invokes whose reservation was gone when they got their turn."""
        self.completed: list[OrgId] = []
        self._lock = threading.Lock()
        self._invokes: deque[Mapping[str, Any]] = deque()
        self._runs: list[_Run] = []
        send = invoke_ready(
            world.claims, world.payloads, self, world.jitter, concurrency=concurrency
        )
        sends = {"lambda": send, "worker": lambda _org, _rows: None}
        self.relays = [Relay(world.outbox, world.clock, sends) for _ in range(relays)]

    def room(self) -> int:
        return 20

    def start(self, payload: Mapping[str, Any]) -> None:
        with self._lock:
            self._invokes.append(payload)
        self.look()

    def look(self) -> None:
        """Right after a reservation has committed: here too many would be seen."""
        held = held_tasks(self.world)
        with self._lock:
            self.most_held = max(self.most_held, held)

    def step(self) -> None:
        """What happens in some seconds, and the pushes that follow from it."""
        world = self.world
        world.pass_time(seconds=STEP.total_seconds())
        for run in [run for run in self._runs if run.ends_at <= world.clock.now()]:
            self._runs.remove(run)
            if world.complete(run.claim).status == "Completed":
                self.completed.append(run.claim.org_id)
        world.reaper.run_once()
        world.dispatcher.run_once()
        self.pushed()
        self.begin()

    def pushed(self) -> None:
        """All relays at once, as long as somebody wakes them."""
        while Function.OUTBOX_RELAY in self.world.waker.woken:
            self.world.waker.woken.clear()
            with ThreadPoolExecutor(len(self.relays)) as pool:
                for done in [pool.submit(_drain, relay) for relay in self.relays]:
                    done.result()
            self.look()

    def begin(self) -> None:
        while self._invokes and len(self._runs) < self.size:
            payload = self._invokes.popleft()
            claim = self.world.claims.start(
                StartRequest(
                    task_id=UUID(payload["task_id"]),
                    start_token=UUID(payload["start_token"]),
                    runner_id=f"runner-{payload['start_token']}",
                )
            )
            if isinstance(claim, Claimed):
                self._runs.append(_Run(claim, self.world.clock.now() + RUN))
            else:
                self.refused += 1


def _drain(relay: Relay) -> None:
    """One row at a time, which leaves some to the other relays: all of them reserve at once."""
    while relay.run_once(1).sent:
        pass


def held_tasks(world: World) -> int:
    (row,) = world.rows(
        "SELECT count(*) AS n FROM leases l JOIN jobs j ON j.job_id = l.job_id"
        " WHERE j.runtime = 'lambda'"
    )
    return int(row.n)


def attempts_of_b(world: World, org: OrgId | None = None) -> list[tuple[int, str]]:
    return [
        (row.attempt, row.outcome)
        for row in world.rows(
            "SELECT a.attempt, a.outcome FROM attempts a JOIN jobs j ON j.job_id = a.job_id"
            " WHERE j.name = 'b' AND j.org_id = %(org)s ORDER BY a.task_id, a.attempt",
            org=org or world.org,
        )
    ]


def feed(world: World, count: int, org: OrgId | None = None) -> None:
    """So many tasks of job `b`; the source that made them rests."""
    org = org or world.org
    (source,) = world.claim(org=org)
    dataset, version = world.output("a", org=org)
    events = [
        EventIn(dataset_uuid=dataset, dataset_version=version, cursor=n) for n in range(count)
    ]
    for at in range(0, count, 10):
        # Each call leaves an outbox row of its own.
        world.accept(source, events[at : at + 10])
    world.report(source, "Yielded", resume_after_seconds=86_400)
