"""Who acts: the platform's own functions, workers, and the people who look after them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.faults import Crash
from tests.simulation.hosts import queue_name
from tests.simulation.runs import Run
from tests.simulation.shapes import SHAPES
from trace_core.dag.model import Runtime
from trace_core.kernel.errors import Conflict, NotFound, TraceError, Unavailable
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.world import World


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
            self.world.later(self.world.rng.uniform(0.01, 0.4), self, "runs", self._pushed)

    def _pushed(self) -> str | None:
        self.woken = False
        if self._down:
            self._path_fault()
            return None
        answer = self._run()
        if answer is not None and self.name.startswith("dispatcher"):
            # It drains: what came in meanwhile is found by the next pass.
            self.wake()
        return answer

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
        self._room = world.rng.randrange(1, 5)
        self.runs: list[Run] = []
        self.down = False
        self.hungry = False
        self._polls = 0

    def begin(self) -> None:
        self.poll_in(0.1)

    def poll_in(self, wait: float) -> None:
        self._polls += 1
        self.world.later(wait, self, "polls", self._poll)

    @property
    def will_look(self) -> bool:
        """Whether it claims again without another message."""
        return not self.down and self.hungry

    def _poll(self) -> str | None:
        self._polls -= 1
        room = self._room - len(self.runs)
        if self.down or room <= 0:
            return None
        messages = self.world.queue.receive(
            self._queue, limit=3, visibility=timedelta(seconds=30), wait=timedelta(0)
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
        return "up"


class Person(Actor):
    """Triggers, cancels, retries, pauses, deploys again, breaks the queue."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "person")
        self._paused: list[tuple[OrgId, str]] = []

    def begin(self) -> None:
        self._next()
        for org in self.world.orgs:
            if self._dag(org) == "ranges":
                for _ in range(3):
                    wait = self.world.rng.uniform(0, 60)
                    self.world.later(wait, self, "triggers", lambda org=org: self._trigger(org))

    def _next(self) -> None:
        self.world.later(self.world.rng.expovariate(1 / 12), self, "acts", self._act)

    def _dag(self, org: OrgId) -> str:
        return next(shape for (shape, _), o in self.world.definitions.orgs.items() if o == org)

    def _act(self) -> str | None:
        if self.world.draining:
            return None
        self._next()
        org = self.world.rng.choice(self.world.orgs)
        actions: list[tuple[int, Callable[[OrgId], str | None]]] = [
            (5, self._cancel), (4, self._retry), (3, self._pause), (4, self._trigger),
            (1, self._redeploy), (1, self._reset), (2, self._break_queue), (4, self._foreign),
            (2, self._kill),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        return self.world.rng.choices(actions, weights)[0][1](org)

    def _cancel(self, org: OrgId) -> str | None:
        world = self.world
        task = world.oracle.some_task(org)
        if task is None:
            return None
        world.interleaved = False
        try:
            status = world.any_host().admin.cancel(org, task)
        except (Crash, Unavailable):
            world.oracle.cancel_unknown(task)
            raise
        except Conflict as error:
            return f"cancel {world.name(task)}: {error.code}"
        world.faults.kinds["canceled"] += 1
        world.oracle.canceled(task, status)
        return f"cancel {world.name(task)}: {status}"

    def _retry(self, org: OrgId) -> str | None:
        world = self.world
        task = world.oracle.some_ended_task(org)
        if task is None:
            return None
        world.oracle.retry_asked(task)
        try:
            status = world.any_host().admin.retry(org, task)
        except Conflict as error:
            return f"retry {world.name(task)}: {error.code}"
        world.faults.kinds["retried"] += 1
        return f"retry {world.name(task)}: {status}"

    def _pause(self, org: OrgId) -> str:
        dag = self._dag(org)
        self._paused.append((org, dag))
        self.world.later(
            self.world.rng.uniform(5, 60), self, "resumes", lambda: self._resume(org, dag)
        )
        self.world.any_host().deploys.pause(org, dag)
        self.world.faults.kinds["paused"] += 1
        return f"pause {dag}"

    def _resume(self, org: OrgId, dag: str) -> str:
        self.world.any_host().deploys.resume(org, dag)
        return f"resume {dag}"

    def _trigger(self, org: OrgId) -> str | None:
        if self._dag(org) != "ranges":
            return None
        rng = self.world.rng
        start = rng.randrange(0, 60)
        request = {"start": start, "end": start + rng.randrange(5, 40)}
        number = self.world.any_host().deploys.trigger(org, "ranges", "ask", request)
        self.world.faults.kinds["triggered"] += 1
        self.world.oracle.triggered(org, number)
        return f"trigger {request} is number {number}"

    def _redeploy(self, org: OrgId) -> str:
        dag = self._dag(org)
        result = self.world.any_host().deploys.deploy(org, SHAPES[dag], f"{dag}.yaml")
        self.world.oracle.must(not result.created, "a definition was deployed twice")
        self.world.faults.kinds["redeployed"] += 1
        return f"deploy {dag} again"

    def _reset(self, _org: OrgId) -> str:
        self.world.faults.kinds["outbox_reset"] += 1
        host = self.world.any_host()
        return f"reset {host.outbox.reset_failed(host.clock.now())} outbox rows"

    def _break_queue(self, _org: OrgId) -> str:
        seconds = self.world.rng.uniform(5, 60)
        self.world.queue.out_until = self.world.now() + timedelta(seconds=seconds)
        self.world.faults.kinds["queue_outage"] += 1
        return f"queue out for {seconds:.0f} s"

    def _kill(self, _org: OrgId) -> str | None:
        worker = self.world.rng.choice(self.world.workers)
        if worker.down:
            return None
        worker.killed()
        return f"kill {worker.name}"

    def _foreign(self, org: OrgId) -> str | None:
        """Another org names our task: it must not exist for them."""
        world = self.world
        task = world.oracle.some_task(org)
        if task is None:
            return None
        world.faults.kinds["foreign_call"] += 1
        try:
            world.any_host().admin.cancel(world.foreign_org, task)
        except NotFound:
            return f"foreign cancel of {world.name(task)}: NotFound"
        except TraceError as error:
            if isinstance(error, Unavailable):
                raise
        world.oracle.fail(f"a foreign org could name {world.name(task)}")
        return None

    def put_right(self) -> None:
        """What people do when the outage is over: resume, and reset rows that were given up."""
        for org, dag in self._paused:
            self.world.any_host().deploys.resume(org, dag)
        self._reset(self.world.orgs[0])

    def unavailable(self) -> None:
        """They try something else later."""
