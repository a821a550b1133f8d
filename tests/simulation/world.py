"""One schedule: actors take turns under a virtual clock, first with faults and then without."""

from __future__ import annotations

import hashlib
import heapq
import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.manual_clock import START
from tests.simulation import final_checks
from tests.simulation.actors import Actor, Periodic, Person, Worker
from tests.simulation.database import Definitions
from tests.simulation.faults import Crash, Faults
from tests.simulation.hosts import Host, SkewedClock, queue_name
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.outside import SimulatedQueue, SimulatedRuntime, SimulatedWaker
from tests.simulation.runs import LambdaRun
from tests.simulation.shapes import SHAPES
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.waker import Function

TASKS_MIN, FAULTS_MIN = 30, 10
CHAOS_MIN, CHAOS_MAX = 150.0, 900.0
"""Virtual seconds with faults: two leases at least."""
DRAIN_MAX = 2 * 3600.0
"""Virtual seconds in which everything must have ended once nothing goes wrong any more."""
STEPS_MAX = 2500
_SKEW_MAX = 6.0
"""Seconds after which every clock agrees that a moment has passed."""
TRACE_SHOWN = 45


@dataclass
class Outcome:
    """What one schedule came to."""

    seed: int
    violation: str | None
    trace: list[str]
    digest: str
    tasks: int
    events: int
    steps: int
    kinds: dict[str, int]
    reached: list[str]
    crashed: dict[str, int]

    def shown(self) -> str:
        return "\n".join(self.trace[-TRACE_SHOWN:])


@dataclass(order=True)
class _Turn:
    at: float
    number: int
    actor: Actor = field(compare=False)
    label: str = field(compare=False)
    act: Callable[[], object] = field(compare=False)
    is_tick: bool = field(compare=False)
    taken: bool = field(compare=False, default=False)


class World:
    def __init__(self, definitions: Definitions, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311
        self.definitions = definitions
        self.state = definitions.state
        self.faults = Faults(self.rng)
        self.seconds = 0.0
        self.trace: list[str] = []
        self.steps = 0
        self.draining = False
        self._swept_at = 0.0
        self._turns: list[_Turn] = []
        self._numbers = 0
        self._work = 0
        self._names: dict[UUID, str] = {}
        self.current: Actor | None = None
        self.interleaved = False
        shapes = self.rng.sample(sorted(SHAPES), 2 if self.rng.random() < 0.3 else 1)
        self.orgs = [definitions.orgs[shape, self.rng.randrange(2)] for shape in shapes]
        others = [org for _, org in sorted(definitions.orgs.items()) if org not in self.orgs]
        self.foreign_org = self.rng.choice(others)
        self.oracle = Oracle(self)
        self.queue = SimulatedQueue(
            self.faults, self.rng, self.now, arrives=self._arrives, lost=self._message_lost
        )
        self.runtime = SimulatedRuntime(self.faults, self.rng, self._begin_run)
        waker = SimulatedWaker(self.faults, self.wake)
        self.hosts = [self._host(number, waker) for number in range(4)]
        self.relays = [self._relay(number) for number in (0, 1)]
        self.dispatchers = [self._dispatcher(number) for number in (0, 1)]
        reaper = self.hosts[2].reaper
        self.periodic = [
            *self.relays,
            *self.dispatchers,
            Periodic(self, "reaper", 25.0, lambda: reaper.run_once() and None),
        ]
        self.workers = [
            Worker(self, f"worker-{self.org_name(org)}-{number}", org)
            for org in self.orgs
            for number in range(2 if len(self.orgs) > 1 else 3)
        ]
        self.person = Person(self)

    def _host(self, number: int, waker: SimulatedWaker) -> Host:
        skew = timedelta()
        if self.faults.happens("clock_skew", 0.4):
            skew = timedelta(seconds=self.rng.uniform(-5, 5))
        clock = SkewedClock(self.now, skew)
        return Host(f"host-{number}", self.definitions, self.rng, clock, self.faults, waker)

    def _relay(self, number: int) -> Periodic:
        relay = self.hosts[number].relay(
            self.queue, self.runtime, lambda: self.wake(Function.DISPATCHER)
        )

        def run() -> str | None:
            report = relay.run_once(20)
            if not (report.sent or report.postponed):
                return None
            return f"sent {report.sent} postponed {report.postponed}"

        return Periodic(self, f"relay-{number}", 45.0, run)

    def _dispatcher(self, number: int) -> Periodic:
        dispatcher = self.hosts[2 + number].dispatcher

        def run() -> str | None:
            report = dispatcher.run_once()
            if report.ran or report.due or report.swept:
                return f"ran {report.ran} due {report.due} swept {report.swept}"
            return None

        return Periodic(self, f"dispatcher-{number}", 30.0, run)

    def now(self) -> Any:
        return START + timedelta(seconds=self.seconds)

    def name(self, task_id: UUID) -> str:
        """A short name for the trace, the same in every run of the seed."""
        return self._names.setdefault(task_id, f"t{len(self._names) + 1}")

    def org_name(self, org: OrgId) -> str:
        shape, number = next(k for k, v in self.definitions.orgs.items() if v == org)
        return f"{shape}-{number}"

    def note(self, line: str) -> None:
        self.trace.append(f"{self.seconds:9.2f} {line}")

    def any_host(self) -> Host:
        """The API runs on two hosts; a call goes to either."""
        return self.hosts[self.rng.randrange(2)]

    def later(
        self,
        wait: float,
        actor: Actor,
        label: str,
        act: Callable[[], object],
        *,
        tick: bool = False,
    ) -> None:
        self._numbers += 1
        turn = _Turn(self.seconds + max(wait, 0.001), self._numbers, actor, label, act, tick)
        heapq.heappush(self._turns, turn)
        self._work += not tick

    def wake(self, function: Function) -> None:
        kind = self.relays if function is Function.OUTBOX_RELAY else self.dispatchers
        self.rng.choice(kind).wake()

    def _arrives(self, queue: str, wait: float) -> None:
        worker = self.rng.choice([w for w in self.workers if queue == queue_name(w.org_id)])
        worker.poll_in(wait + 0.01)

    def _message_lost(self, queue: str) -> None:
        for org in self.orgs:
            if queue == queue_name(org):
                self.oracle.path_fault(org, "worker")

    def _begin_run(self, payload: Mapping[str, Any], wait: float, dies: bool) -> None:
        LambdaRun(self, OrgId(UUID(payload["org_id"])), payload, dies=dies).begin_in(wait)

    # Turns ---------------------------------------------------------------------------------------

    def _next(self) -> _Turn:
        while True:
            turn = heapq.heappop(self._turns)
            if not turn.taken:
                return turn

    def _take(self, turn: _Turn) -> None:
        turn.taken = True
        self._work -= not turn.is_tick
        self.seconds = max(self.seconds, turn.at)
        self._do(turn.actor, turn.label, turn.act)

    def _do(self, actor: Actor, label: str, act: Callable[[], object]) -> None:
        self.steps += 1
        outer, self.current = self.current, actor
        try:
            answer = act()
            if answer is not None:
                self.note(f"{actor.name} {label}: {answer}")
        except Crash as crash:
            self.note(f"{actor.name} {label}: crashed at {crash}")
            actor.crashed()
        except Unavailable as error:
            self.note(f"{actor.name} {label}: unavailable, {error.message}")
            actor.unavailable()
        finally:
            self.current = outer
        self.oracle.observe()

    def between(self) -> None:
        """Inside a transaction of one actor another one may take its turn."""
        if self.state.depth or not self._turns or not self.faults.happens("stepped_in", 0.12):
            return
        near = [t for t in heapq.nsmallest(12, self._turns) if not t.taken]
        near = [t for t in near if t.actor is not self.current and t.at < self.seconds + 20]
        if not near:
            return
        turn = self.rng.choice(near)
        turn.taken, self._work = True, self._work - (not turn.is_tick)
        self.note(f"{turn.actor.name} steps in:")
        self.state.depth = 1
        try:
            self._do(turn.actor, turn.label, turn.act)
        finally:
            self.state.depth = 0
        # What the first one does from here on was not yet there to be seen.
        self.state.touched = self.interleaved = True

    # A schedule ----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self.definitions.reset(self.orgs)
        self.state.attach(self.faults.point, self.between)
        violation = None
        try:
            self._begin()
            self._chaos()
            self._drain()
            final_checks.check(self)
        except Violation as found:
            violation = str(found)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            violation = f"a service raised {type(error).__name__} ({last.name}): {error}"
        finally:
            self.state.attach(lambda _name: None, lambda: None)
        if violation:
            self.note(f"VIOLATION {violation}")
        events = self.oracle.count("all_events")
        return Outcome(
            self.seed, violation, self.trace, self._digest(), self.oracle.count("all_tasks"),
            events, self.steps, dict(self.faults.kinds), sorted(self.faults.reached),
            dict(self.faults.crashed),
        )  # fmt: skip

    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def _begin(self) -> None:
        for actor in [*self.periodic, *self.workers, self.person]:
            actor.begin()
        if self.rng.random() < 0.15:
            self.runtime.down = True

    def _chaos(self) -> None:
        while self.seconds < CHAOS_MAX:
            if self.seconds > CHAOS_MIN and self.oracle.tasks >= TASKS_MIN:
                if self.faults.total >= FAULTS_MIN:
                    return
            self._take(self._next())

    def _drain(self) -> None:
        self.note("---- no more faults")
        self.faults.on, self.draining = False, True
        self.queue.out_until = None
        self.person.put_right()
        began, steps = self.seconds, self.steps
        while True:
            if self.seconds - began > DRAIN_MAX or self.steps - steps > STEPS_MAX:
                raise Violation(f"not drained: {self.state.look('next_due')[0].open} still open")
            due = self.state.look("next_due")[0]
            if not due.open and not self._work:
                return
            at, function = self._soonest(due)
            if self._work and self._next_work_at() <= at:
                self._take(self._next())
            else:
                self._skip_to(at, function)

    def _soonest(self, due: Any) -> tuple[float, str]:
        """Which function of the platform finds something next, and when."""
        found = [
            ((at - START).total_seconds() + _SKEW_MAX, name)
            for name, at in (
                ("relay", due.relay),
                ("dispatcher", due.dispatcher),
                ("reaper", due.reaper),
            )
            if at is not None
        ]
        if due.stranded is not None:
            stranded = (due.stranded - START).total_seconds() + _SKEW_MAX
            found.append((max(stranded, self._swept_at + 30), "dispatcher"))
        return min(found, default=(self.seconds, "dispatcher"))

    def _next_work_at(self) -> float:
        """Schedules count for nothing here: a sweep runs when there is something to find."""
        while self._turns[0].taken or self._turns[0].is_tick:
            heapq.heappop(self._turns)
        return self._turns[0].at

    def _skip_to(self, seconds: float, function: str) -> None:
        """Nothing happens before then: let the time pass and the function run that finds it."""
        self.seconds = max(self.seconds + 1, seconds)
        # What waits without a wake-up is seen before a sweep can hide it.
        self.oracle.observe(again=True)
        if function == "dispatcher":
            self._swept_at = self.seconds
        actor = self.rng.choice([a for a in self.periodic if a.name.startswith(function)])
        self._do(actor, "sweeps", actor.sweep)
