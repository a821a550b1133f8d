"""The people who look after a platform, and who break it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.simulation.actors import Actor
from tests.simulation.bodies import TASKS_MIN
from tests.simulation.faults import Crash
from tests.simulation.shapes import SHAPES
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Conflict, NotFound, TraceError, Unavailable
from trace_core.kernel.ids import OrgId, TaskId

if TYPE_CHECKING:
    from tests.simulation.world import World


class Person(Actor):
    """Triggers, cancels, retries, pauses, deploys again, breaks the queue."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "person")
        self._paused: list[tuple[OrgId, str]] = []

    def begin(self) -> None:
        self._next()
        for org in self.world.orgs:
            if self._dag(org) == "ranges":
                for _ in range(2):
                    wait = self.world.rng.uniform(0, 30)
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
            (4, self._cancel), (4, self._retry), (2, self._pause), (4, self._trigger),
            (1, self._redeploy), (1, self._reset), (2, self._break_queue), (4, self._foreign),
            (2, self._kill),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        return self.world.rng.choices(actions, weights)[0][1](org)

    def _tasks(self, org: OrgId) -> list[Any]:
        return [r for r in self.world.state.look("reactive_tasks") if r.org_id == org]

    def _some_task(self, org: OrgId) -> TaskId | None:
        rows = self._tasks(org)
        # Mostly what is still open: there the answer matters.
        rows = [r for r in rows if r.outcome is None] or rows
        return self.world.rng.choice(rows).task_id if rows else None

    def _some_ended_task(self, org: OrgId) -> TaskId | None:
        rows = [r for r in self._tasks(org) if r.outcome not in (None, "Completed")]
        return self.world.rng.choice(rows).task_id if rows else None

    def _cancel(self, org: OrgId) -> str | None:
        world = self.world
        task = self._some_task(org)
        if task is None:
            return None
        world.interleaved = False
        try:
            status = world.any_host().admin.cancel(org, task, SYSTEM)
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
        task = self._some_ended_task(org)
        if task is None:
            return None
        world.oracle.retry_asked(task)
        try:
            status = world.any_host().admin.retry(org, task, SYSTEM)
        except Conflict as error:
            return f"retry {world.name(task)}: {error.code}"
        world.faults.kinds["retried"] += 1
        return f"retry {world.name(task)}: {status}"

    def _pause(self, org: OrgId) -> str:
        dag = self._dag(org)
        self._paused.append((org, dag))
        self.world.later(
            self.world.rng.uniform(5, 30), self, "resumes", lambda: self._resume(org, dag)
        )
        self.world.any_host().deploys.pause(org, dag, SYSTEM)
        self.world.faults.kinds["paused"] += 1
        return f"pause {dag}"

    def _resume(self, org: OrgId, dag: str) -> str:
        self.world.any_host().deploys.resume(org, dag, SYSTEM)
        return f"resume {dag}"

    def _trigger(self, org: OrgId) -> str | None:
        if self._dag(org) != "ranges":
            return None
        rng = self.world.rng
        start = rng.randrange(0, 60)
        request = {"start": start, "end": start + rng.randrange(5, 30)}
        return self._request(org, request)

    def _request(self, org: OrgId, request: dict[str, int]) -> str:
        number = self.world.any_host().requests.trigger(org, "ranges", "ask", request, SYSTEM)
        self.world.faults.kinds["triggered"] += 1
        self.world.oracle.triggered(org, number)
        return f"trigger {request} is number {number}"

    def _redeploy(self, org: OrgId) -> str | None:
        dag = self._dag(org)
        if org == self.world.editor.org:
            # Somebody else looks after it.
            return None
        result = self.world.any_host().deploys.deploy(org, SHAPES[dag], f"{dag}.yaml", SYSTEM)
        self.world.oracle.must(not result.created, "a definition was deployed twice")
        self.world.faults.kinds["redeployed"] += 1
        return f"deploy {dag} again"

    def _reset(self, _org: OrgId) -> str:
        self.world.faults.kinds["outbox_reset"] += 1
        admin = self.world.any_host().outbox_admin
        return f"reset {sum(admin.reset(org, SYSTEM) for org in self.world.orgs)} outbox rows"

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
        task = self._some_task(org)
        if task is None:
            return None
        world.faults.kinds["foreign_call"] += 1
        try:
            world.any_host().admin.cancel(world.foreign_org, task, SYSTEM)
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
            self.world.any_host().deploys.resume(org, dag, SYSTEM)
        self._reset(self.world.orgs[0])

    def ask_for_more(self) -> bool:
        """Sources that are always on go on by themselves; a manual one is asked for the rest."""
        for org in self.world.orgs:
            if self._dag(org) == "ranges":
                # A chunk of ten is split, loaded, announced and gathered.
                chunks = max(TASKS_MIN - self.world.oracle.tasks, 0) // 3 + 1
                self._request(org, {"start": 0, "end": chunks * 10 - 1})
                return True
        return False

    def unavailable(self) -> None:
        """They try something else later."""
