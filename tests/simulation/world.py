"""The world of one schedule: actors that take turns under a virtual clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.manual_clock import START
from tests.simulation.actors import Actor, Periodic, Worker
from tests.simulation.crossing import Crossing
from tests.simulation.database import Definitions, JobFacts
from tests.simulation.editor import Editor
from tests.simulation.faults import Crash, Faults
from tests.simulation.hosts import Host, SkewedClock, queue_name
from tests.simulation.lambda_runs import LambdaRun
from tests.simulation.oracle import Oracle
from tests.simulation.outside import SimulatedQueue, SimulatedRuntime, SimulatedWaker
from tests.simulation.owner import Owner
from tests.simulation.person import Person
from tests.simulation.shapes import SHAPES
from tests.simulation.versions import Versions
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.waker import Function


@dataclass(order=True)
class Turn:
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
        self.turns: list[Turn] = []
        self._numbers = 0
        self.work = 0
        self._names: dict[UUID, str] = {}
        self._poisoned: dict[UUID, bool] = {}
        self.current: Actor | None = None
        shapes = self.rng.sample(sorted(SHAPES), 2 if self.rng.random() < 0.2 else 1)
        self.orgs = [definitions.orgs[shape, self.rng.randrange(2)] for shape in shapes]
        others = [org for _, org in sorted(definitions.orgs.items()) if org not in self.orgs]
        self.foreign_org = self.rng.choice(others)
        self.jobs = dict(definitions.jobs)
        self.broken: Exception | None = None
        """What a chore raised that it must not."""
        self.versions = Versions(self)
        self.crossing = Crossing(self)
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
            for number in range(2)
        ]
        self.person = Person(self)
        self.owner = Owner(self)
        self.editor = Editor(self)

    def _host(self, number: int, waker: SimulatedWaker) -> Host:
        skew = timedelta()
        if self.faults.happens("clock_skew", 0.4):
            skew = timedelta(seconds=self.rng.uniform(-5, 5))
        clock = SkewedClock(self.now, skew)
        return Host(
            f"host-{number}", self.definitions, self.rng, clock, self.faults, waker,
            handed_out=self.oracle.handed_out, run_checks=self._run_checks,
            chore_ended=self._chore_ended,
        )  # fmt: skip

    def _relay(self, number: int) -> Periodic:
        relay = self.hosts[number].relay(
            self.queue, self.runtime, lambda: self.wake(Function.DISPATCHER)
        )

        def run() -> str | None:
            report = relay.run_once()
            if not (report.sent or report.waiting or report.postponed):
                return None
            return f"sent {report.sent} waiting {report.waiting} postponed {report.postponed}"

        return Periodic(self, f"relay-{number}", 45.0, run)

    def _dispatcher(self, number: int) -> Periodic:
        dispatcher = self.hosts[2 + number].dispatcher

        def run() -> str | None:
            report = dispatcher.run_once()
            if report.ran or report.chores:
                # It drains: what came in meanwhile is found by the next pass.
                self.dispatchers[number].wake()
            if report.ran or report.due or report.swept or report.chores:
                chores = f" chores {report.chores}" if report.chores else ""
                return f"ran {report.ran} due {report.due} swept {report.swept}{chores}"
            return None

        return Periodic(self, f"dispatcher-{number}", 40.0, run)

    @property
    def interleaved(self) -> bool:
        return self.crossing.interleaved

    @interleaved.setter
    def interleaved(self, interleaved: bool) -> None:
        self.crossing.interleaved = interleaved

    def now(self) -> Any:
        return START + timedelta(seconds=self.seconds)

    def name(self, task_id: UUID) -> str:
        """A short name for the trace, the same in every run of the seed."""
        return self._names.setdefault(task_id, f"t{len(self._names) + 1}")

    def org_name(self, org: OrgId) -> str:
        shape, number = next(k for k, v in self.definitions.orgs.items() if v == org)
        return f"{shape}-{number}"

    def _run_checks(self, _org: OrgId, _version: UUID) -> list[dict[str, Any]]:
        wrong = self.faults.happens("check_wrong", 0.3)
        return [{"dataset": "made up", "message": "it is wrong", "holds": not wrong}]

    def _chore_ended(self, error: Exception | None) -> None:
        self.broken = self.broken or error
        self.versions.chores += error is None

    def job(self, job_id: UUID) -> JobFacts:
        if job_id not in self.jobs:
            self.learn_jobs()
        return self.jobs[job_id]

    def learn_jobs(self) -> None:
        """There are jobs now that were not deployed when the schedule began."""
        self.jobs = self.definitions.read_jobs()
        self.oracle.learn(self.jobs, self.definitions.read_limits())

    def is_poisoned(self, task_id: UUID, is_source: bool) -> bool:
        """Some tasks fail whenever they run: that is no fault, and so it stays in the end."""
        if task_id not in self._poisoned:
            self._poisoned[task_id] = not is_source and self.rng.random() < 0.04
        return self._poisoned[task_id]

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
        turn = Turn(self.seconds + max(wait, 0.001), self._numbers, actor, label, act, tick)
        heapq.heappush(self.turns, turn)
        self.work += not tick

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

    def next_turn(self) -> Turn:
        while True:
            turn = heapq.heappop(self.turns)
            if not turn.taken:
                return turn

    def take(self, turn: Turn) -> None:
        turn.taken = True
        self.work -= not turn.is_tick
        self.seconds = max(self.seconds, turn.at)
        self.do(turn.actor, turn.label, turn.act)

    def do(self, actor: Actor, label: str, act: Callable[[], object]) -> None:
        self.steps += 1
        if self.state.depth == 0:
            self.crossing.crossed = False
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
