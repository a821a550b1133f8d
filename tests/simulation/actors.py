"""Who acts: the platform's own functions, and the workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.hosts import queue_name
from tests.simulation.runs import Run
from trace_core.dag.model import Runtime
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.world import World


VISIBILITY = timedelta(seconds=30)
GATHERS = 5
"""Seconds between two looks of the same actor once nothing goes wrong any more: the end is there
to show that everything ends, and what gathers is done in fewer steps."""


class Actor:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    def begin(self) -> None:
        """Take the first turn."""

    def crashed(self) -> None:
        """The process died at a named point."""

    def unavailable(self) -> None:
        """A call got no answer, and nobody below handled that."""


class Periodic(Actor):
    """A function of the platform: runs on its schedule, and soon when somebody wakes it."""

    def __init__(
        self, world: World, name: str, period: float, run: Callable[[], str | None]
    ) -> None:
        super().__init__(world, name)
        self._period, self._run = period, run
        self._down = False
        self.woken = False

    def begin(self) -> None:
        self._tick_in(self.world.rng.uniform(0, self._period))

    def _tick_in(self, wait: float) -> None:
        self.world.later(wait, self, "runs by schedule", self._tick, tick=True)

    def _tick(self) -> str | None:
        self._tick_in(self._period * self.world.rng.uniform(0.8, 1.2))
        return None if self._down else self._run()

    def sweep(self) -> str | None:
        return self._run()

    def wake(self) -> None:
        if not self.woken:
            self.woken = True
            wait = GATHERS if self.world.draining else self.world.rng.uniform(0.01, 0.4)
            self.world.later(wait, self, "runs", self._pushed)

    def _pushed(self) -> str | None:
        self.woken = False
        if self._down:
            self._path_fault()
            return None
        return self._run()

    def _path_fault(self) -> None:
        for org in self.world.orgs:
            self.world.oracle.path_fault(org, self.name.partition("-")[0])

    def crashed(self) -> None:
        self._path_fault()
        self._down = True
        self.world.faults.kinds["restart"] += 1
        self.world.later(self.world.rng.uniform(1, 30), self, "restarts", self._restart)

    def _restart(self) -> str:
        self._down = False
        return "up"

    def unavailable(self) -> None:
        self._path_fault()
        self.wake()


class Worker(Actor):
    """Waits for messages, claims by id or by queue, and drains while there is more."""

    def __init__(self, world: World, name: str, org_id: OrgId) -> None:
        super().__init__(world, name)
        self.org_id = org_id
        self._queue = queue_name(org_id)
        self._room = world.rng.randrange(1, 7)
        self.runs: list[Run] = []
        self.down = False
        self.hungry = False
        self._polls: set[int] = set()

    def begin(self) -> None:
        self.poll_in(0.1)

    def poll_in(self, wait: float) -> None:
        # One look a second is enough for any number of messages.
        at = round(self.world.seconds + wait)
        if self.world.draining:
            at = (at // GATHERS + 1) * GATHERS
            wait = at - self.world.seconds
        if at not in self._polls:
            self._polls.add(at)
            self.world.later(wait, self, "polls", lambda: self._poll(at))

    @property
    def will_look(self) -> bool:
        """Whether it claims again without another message."""
        return not self.down and self.hungry

    @property
    def has_room(self) -> bool:
        return len(self.runs) < self._room

    def rush(self) -> str | None:
        """Look for work at once, message or not."""
        self.hungry = True
        return self._poll(-1)

    def _poll(self, at: int) -> str | None:
        self._polls.discard(at)
        room = self._room - len(self.runs)
        if self.down or room <= 0:
            return None
        messages = self.world.queue.receive(
            self._queue,
            limit=self.world.rng.choice((1, 10)),
            visibility=VISIBILITY,
            wait=timedelta(0),
        )
        if not messages and not self.hungry:
            return None
        asked = [TaskId(UUID(str(m.body["task_id"]))) for m in messages]
        claimed = self._claim(asked, room)
        self.world.faults.point("worker_ack:before")
        self.world.queue.delete(self._queue, [m.receipt for m in messages])
        self.world.faults.point("worker_ack:after")
        for claim in claimed:
            self.start(claim)
        if self.hungry and len(self.runs) < self._room:
            self.poll_in(0.1)
        names = " ".join(
            f"{self.world.name(c.task_id)}/{c.attempt}.{c.lease_sequence}" for c in claimed
        )
        return f"got {len(messages)} messages, claimed {names or 'nothing'}"

    def _claim(self, asked: list[TaskId], room: int) -> list[Claimed]:
        world, claimed = self.world, []
        self.hungry = True
        host = world.any_host()
        if asked and world.rng.random() < 0.4:
            wanted = list(dict.fromkeys(asked))[:room]
            world.interleaved = False
            answers = host.claims.claim_ids(self.org_id, wanted, self.name)
            claimed = [answer for answer in answers if isinstance(answer, Claimed)]
            world.oracle.claimed(claimed, self.org_id)
        left = room - len(claimed)
        if left:
            world.interleaved = False
            found = host.claims.claim(self.org_id, Runtime.WORKER, left, self.name)
            world.oracle.claimed(found, self.org_id)
            claimed += found
            self.hungry = len(found) == left
        return claimed

    def start(self, claim: Claimed) -> None:
        run = Run(self.world, self.org_id, claim, worker=self)
        self.runs.append(run)
        run.start()

    def finished(self, run: Run) -> None:
        if run in self.runs:
            self.runs.remove(run)
            if self.hungry or self.world.queue.depth(self._queue).visible:
                self.poll_in(0.05)

    def crashed(self) -> None:
        """Either the API died, which is a lost answer to us, or we did."""
        self.world.oracle.path_fault(self.org_id, "worker")
        if self.world.rng.random() < 0.5:
            self.unavailable()
        else:
            self.killed()

    def unavailable(self) -> None:
        self.world.oracle.path_fault(self.org_id, "worker")
        self.hungry = True
        self.poll_in(self.world.rng.uniform(1, 4))
        self._look_again()

    def _look_again(self) -> None:
        """What was received and not deleted is visible again by then."""
        self.poll_in(VISIBILITY.total_seconds() + 1)

    def killed(self) -> None:
        world = self.world
        world.faults.kinds["worker_killed"] += 1
        world.oracle.path_fault(self.org_id, "worker")
        self.down, self.hungry = True, False
        for run in self.runs:
            run.abandoned()
        self.runs = []
        world.later(world.rng.uniform(1, 40), self, "restarts", self._restart)

    def _restart(self) -> str:
        self.down = False
        self.poll_in(0.1)
        self._look_again()
        return "up"
