"""From the commit of an event to the claim of its task, through the real push path.

accept -> outbox -> NOTIFY -> relay -> PgQueue -> a waiting worker claims. Three processes: the
caller, the relay, the worker.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg

from bench.crew import Crew
from bench.world import SilentWaker, Site, StampedWaker, World, clear_work, dag_text, new_site
from trace_core.adapters.lite.notify import NotifyListener, NotifyWaker
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.dispatcher.control import Control
from trace_core.dispatcher.service import Dispatcher
from trace_core.kernel import limits
from trace_core.kernel.ids import OrgId
from trace_core.outbox.relay import Relay, send_wakeups
from trace_core.outbox.store import Outbox
from trace_core.ports.queue import wake_queue
from trace_core.ports.waker import Function
from trace_core.tasks.model import Priority

_VISIBILITY = timedelta(seconds=30)


@dataclass(frozen=True)
class Latencies:
    """Milliseconds."""

    p50: float
    p95: float
    p99: float
    worst: float
    number: int

    @staticmethod
    def of(seconds: list[float]) -> Latencies:
        ordered = sorted(each * 1000 for each in seconds)
        cuts = statistics.quantiles(ordered, n=100, method="inclusive")
        return Latencies(cuts[49], cuts[94], cuts[98], ordered[-1], len(ordered))


def latency_site(dsn: str, home: Path) -> Site:
    return new_site(dsn, home, [dag_text("push", ["b"])])


def new_relay(world: World, queue: PgQueue) -> Relay:
    """The relay for worker wake-ups alone: the benchmark starts no Lambda."""

    def ignore(_org_id: OrgId, _rows: Any) -> None:
        pass

    sends = {
        Runtime.WORKER.value: send_wakeups(queue, Runtime.WORKER),
        Runtime.LAMBDA.value: ignore,
    }
    return Relay(Outbox(world.app.state, world.app.jitter), world.app.clock, sends)


def relay_or_work(world: World, index: int, barrier: Any, seconds: float) -> dict[int, float]:
    """The first process relays, the second works; answers when each cursor was claimed."""
    queue = PgQueue(world.app.state, world.app.clock, world.app.ids)
    name = wake_queue(Runtime.WORKER, world.site.org_id)
    ends_at = time.monotonic() + seconds
    claimed_at: dict[int, float] = {}
    try:
        if index == 0:
            relay = new_relay(world, queue)
            listener = NotifyListener(world.site.dsn, Function.OUTBOX_RELAY)
            barrier.wait(60)
            while time.monotonic() < ends_at:
                if listener.wait(timedelta(seconds=min(1.0, seconds))):
                    relay.run_until_idle(timedelta(seconds=45))
            listener.close()
            return claimed_at
        barrier.wait(60)
        while time.monotonic() < ends_at:
            messages = queue.receive(
                name, limit=10, visibility=_VISIBILITY, wait=timedelta(seconds=0.5)
            )
            if messages:
                _drain(world, claimed_at)
                queue.delete(name, [message.receipt for message in messages])
        return claimed_at
    finally:
        queue.close()


def _drain(world: World, claimed_at: dict[int, float]) -> None:
    while claimed := world.claim(10):
        now = time.monotonic()
        for each in claimed:
            if each.trigger is not None and each.trigger.scope.cursor is not None:
                claimed_at[each.trigger.scope.cursor] = now
        world.complete(claimed)


def measure_push(site: Site, crew: Crew, events: int, per_second: int) -> Latencies:
    clear_work(site.dsn)
    state = StateDatabase(site.dsn)
    waker = StampedWaker(NotifyWaker(state))
    world = World(site, waker=waker, state=state)
    source = site.sources["push.source"]
    committed_at: dict[int, float] = {}
    crew.start(2, relay_or_work, events / per_second + 2.5)
    time.sleep(1.0)
    try:
        first, begun = time.time_ns() // 1000, time.monotonic()
        for n in range(events):
            time.sleep(max(0.0, begun + n / per_second - time.monotonic()))
            world.accept(source, first + n, 1)
            committed_at[first + n] = waker.called_at
    finally:
        world.close()
    claimed_at = crew.results(2)[1]
    if missing := committed_at.keys() - claimed_at.keys():
        raise RuntimeError(f"{len(missing)} of {events} events were not claimed")
    return Latencies.of([claimed_at[c] - at for c, at in committed_at.items()])


class _LaterClock:
    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return datetime.now(UTC) + self._by


@dataclass(frozen=True)
class Swept:
    events: int
    claimed_by_relay: int
    """Push lost: what one scheduled run of the relay brings to the workers."""
    claimed_by_sweep: int
    """Wake-ups lost altogether: what one sweep of the Dispatcher brings."""


class _NoControlWork:
    def run_once(self) -> int:
        return 0


def _sweeper(world: World) -> Dispatcher:
    """The Dispatcher without control tasks, of which the benchmark's DAGs have none."""
    app, control = world.app, cast(Control, _NoControlWork())
    return Dispatcher(app.state, app.clock, app.ids, app.waker, control)


def measure_sweep(site: Site, events: int) -> Swept:
    claimed = []
    for lost in (False, True):
        clear_work(site.dsn)
        later = limits.SWEEP_GRACE + timedelta(seconds=1) if lost else timedelta()
        world = World(site, waker=SilentWaker(), clock=_LaterClock(later))
        early = World(site, waker=SilentWaker())
        queue = PgQueue(world.app.state, world.app.clock, world.app.ids)
        try:
            first = time.time_ns() // 1000
            for at in range(0, events, 10):
                early.accept(site.sources["push.source"], first + at, 10)
            if lost:
                with psycopg.connect(site.dsn, autocommit=True) as connection:
                    connection.execute("TRUNCATE outbox")
                _sweeper(world).run_once()
            new_relay(world, queue).run_until_idle(timedelta(seconds=45))
            found: dict[int, float] = {}
            name = wake_queue(Runtime.WORKER, site.org_id)
            if queue.receive(name, limit=1, visibility=_VISIBILITY, wait=timedelta(seconds=1)):
                _drain(early, found)
            claimed.append(len(found))
        finally:
            queue.close()
            world.close()
            early.close()
    return Swept(events, claimed[0], claimed[1])


def busy_site(dsn: str, home: Path) -> Site:
    backfill = dag_text("backfill", ["b"], priority=Priority.BACKFILL)
    return new_site(dsn, home, [backfill, dag_text("live", ["b"])])


def work_slowly(
    world: World, index: int, barrier: Any, seconds: float, task_seconds: float
) -> dict[int, float]:
    """One task at a time; answers when each live cursor was claimed."""
    live = world.site.jobs["live.b"]
    claimed_at: dict[int, float] = {}
    barrier.wait(60)
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for each in world.claim(1, f"bench-{index}"):
            if each.job_id == live and each.trigger and each.trigger.scope.cursor is not None:
                claimed_at[each.trigger.scope.cursor] = time.monotonic()
            time.sleep(task_seconds)
            world.complete([each])
    return claimed_at


def measure_live(
    site: Site, crew: Crew, *, backlog: int, events: int, task_seconds: float
) -> Latencies:
    """Two workers busy with backfill, many more tasks of it queued, now and then a live event."""
    clear_work(site.dsn)
    world = World(site, waker=SilentWaker())
    committed_at: dict[int, float] = {}
    gap = task_seconds * 1.7
    try:
        first = time.time_ns() // 1000
        for at in range(0, backlog, 500):
            world.accept(site.sources["backfill.source"], first + at, min(500, backlog - at))
        crew.start(2, work_slowly, events * gap + 2.0, task_seconds)
        time.sleep(1.0)
        for n in range(events):
            world.accept(site.sources["live.source"], first + n, 1)
            committed_at[first + n] = time.monotonic()
            time.sleep(gap)
    finally:
        world.close()
    claimed_at = {c: at for found in crew.results(2) for c, at in found.items()}
    if missing := committed_at.keys() - claimed_at.keys():
        raise RuntimeError(f"{len(missing)} live events were not claimed")
    return Latencies.of([max(0.0, claimed_at[c] - at) for c, at in committed_at.items()])
