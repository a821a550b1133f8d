"""One schedule: first with faults, then without, until everything has ended."""

from __future__ import annotations

import hashlib
import heapq
import traceback
from dataclasses import dataclass

from tests.manual_clock import START
from tests.simulation import final_checks
from tests.simulation.bodies import is_enough
from tests.simulation.oracle import Due, Violation
from tests.simulation.world import World

FAULTS_MIN = 10
CHAOS_MIN, CHAOS_MAX = 150.0, 300.0
"""Virtual seconds with faults: two leases at least."""
DRAIN_MAX = 6 * 3600.0
"""Virtual seconds in which everything must have ended once nothing goes wrong any more; an hour
for each time that the starts of an hour are used up."""
STEPS_MAX = 2500
_SKEW_MAX = 6.0
"""Seconds after which every clock agrees that a moment has passed."""
_LOOKS_EVERY = 15.0
"""Seconds between two looks of a Dispatcher at deploys that have not ended, at first."""
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


class Schedule(World):
    """A world that is run once, from its seed to its end."""

    _swept_at = 0.0
    _looks_in = _LOOKS_EVERY
    _left = (0, 0)

    def run(self) -> Outcome:
        self.definitions.reset(self.orgs)
        self.state.attach(self.crossing.point, self.crossing.between, self.crossing.ended)
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
            self.state.attach(lambda _name: None, lambda _name: None, lambda: None)
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
        for actor in [*self.periodic, *self.workers, self.person, self.owner, self.editor]:
            actor.begin()
        if self.rng.random() < 0.15:
            self.runtime.down = True

    def _chaos(self) -> None:
        while self.seconds < CHAOS_MAX:
            enough = is_enough(self) and self.faults.total >= FAULTS_MIN
            if enough and self.seconds > CHAOS_MIN:
                return
            self.take(self.next_turn())

    def _drain(self) -> None:
        self.note("---- no more faults")
        self.faults.on, self.draining = False, True
        self.queue.out_until = None
        self.person.put_right()
        self.owner.put_right()
        began, steps = self.seconds, self.steps
        self.oracle.observe(again=True)
        while True:
            due = self.oracle.due
            assert due is not None
            if self.seconds - began > DRAIN_MAX or self.steps - steps > STEPS_MAX:
                raise Violation(f"not drained: {due.open} and {due.deploys} deploys still open")
            quiet = not due.open and not due.deploys and not self.work
            if self.editor.look_after(quiet=quiet):
                self.oracle.observe(again=True)
                continue
            if quiet:
                if is_enough(self):
                    return
                if self.person.ask_for_more():
                    self.oracle.observe(again=True)
                    continue
            at, function = self._soonest(due)
            if self.work and self._next_work_at() <= at:
                self.take(self.next_turn())
            else:
                self._skip_to(at, function)

    def _soonest(self, due: Due) -> tuple[float, str]:
        """Which function of the platform finds something next, and when."""
        start = START.timestamp()
        found = [
            (at - start + _SKEW_MAX, name)
            for name, at in (
                ("relay", due.relay),
                ("dispatcher", due.dispatcher),
                ("reaper", due.reaper),
            )
            if at is not None
        ]
        if due.stranded is not None:
            stranded = due.stranded - start + _SKEW_MAX
            found.append((max(stranded, self._swept_at + 30), "dispatcher"))
        if due.deploys:
            found.append((max(self.seconds, self._swept_at + self._looks_in), "dispatcher"))
        return min(found, default=(self.seconds, "dispatcher"))

    def _next_work_at(self) -> float:
        """Schedules count for nothing here: a sweep runs when there is something to find."""
        while self.turns[0].taken or self.turns[0].is_tick:
            heapq.heappop(self.turns)
        return self.turns[0].at

    def _skip_to(self, seconds: float, function: str) -> None:
        """Nothing happens before then: let the time pass and the function run that finds it."""
        self.seconds = max(self.seconds + 1, seconds)
        # What waits without a wake-up is seen before a sweep can hide it.
        self.oracle.observe(again=True)
        due = self.oracle.due
        if function == "dispatcher" and due is not None:
            # The longer nothing changes, an hour that is used up perhaps, the less often.
            left, self._left = self._left, (due.open, due.deploys)
            self._looks_in = _LOOKS_EVERY if self._left != left else min(self._looks_in * 2, 600)
            self._swept_at = self.seconds
        actor = self.rng.choice([a for a in self.periodic if a.name.startswith(function)])
        self.do(actor, "sweeps", actor.sweep)
