"""The real services, as one process of the platform holds them: with a clock that may be wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulation.database import Definitions
from tests.simulation.faults import Faults
from tests.simulation.outside import SimulatedQueue, SimulatedRuntime, SimulatedWaker
from tests.simulation.shapes import catalog
from trace_core.dag.model import Runtime
from trace_core.deploy.builds import Builds, RunChecks
from trace_core.deploy.requests import Requests
from trace_core.deploy.service import Deploys
from trace_core.dispatcher.control import Control
from trace_core.dispatcher.service import Dispatcher
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.outbox.admin import OutboxAdmin
from trace_core.outbox.relay import Relay, Send, send_wakeups
from trace_core.outbox.store import Outbox, OutboxRow
from trace_core.ports.queue import wake_queue
from trace_core.tasks.admin import TaskAdmin
from trace_core.tasks.claim import Claimed, Claims, Refused
from trace_core.tasks.complete import Completions
from trace_core.tasks.events import EventAcceptance
from trace_core.tasks.invoke import invoke_ready
from trace_core.tasks.leases import Leases
from trace_core.tasks.payload import Payloads
from trace_core.tasks.quotas import Quotas
from trace_core.tasks.reaper import Reaper

CATALOG = catalog()


HandedOut = Callable[[OrgId, list[Claimed]], None]


class OrderedClaims(Claims):
    """A claim's rows come in the order of a table's pages, which no seed determines. The oracle
    hears of every one that was answered."""

    def __init__(self, *arguments: Any, handed_out: HandedOut) -> None:
        super().__init__(*arguments)
        self._handed_out = handed_out

    def claim(self, org_id: OrgId, runtime: Runtime, limit: int, worker_id: str) -> list[Claimed]:
        return self._told(org_id, super().claim(org_id, runtime, limit, worker_id))

    def reserve(
        self, org_id: OrgId, runtime: Runtime, limit: int, *, concurrency: int | None = None
    ) -> list[Claimed]:
        found = super().reserve(org_id, runtime, limit, concurrency=concurrency)
        return self._told(org_id, found)

    def claim_ids(
        self, org_id: OrgId, task_ids: Sequence[TaskId], worker_id: str
    ) -> list[Claimed | Refused]:
        answers = super().claim_ids(org_id, task_ids, worker_id)
        self._told(org_id, [answer for answer in answers if isinstance(answer, Claimed)])
        return answers

    def _told(self, org_id: OrgId, claims: list[Claimed]) -> list[Claimed]:
        self._handed_out(org_id, claims)
        return sorted(claims, key=_task_id)


def _task_id(claim: Claimed) -> UUID:
    return claim.task_id


class OrderedOutbox(Outbox):
    def take_due(self, now: datetime, limit: int) -> list[OutboxRow]:
        """Rows and the tasks in them come in the order of plans and pages. Ids are permuted among
        the rows of one statement, no two of which have the same org and target."""
        rows = [
            replace(row, task_ids=tuple(sorted(row.task_ids)))
            for row in super().take_due(now, limit)
        ]
        return sorted(rows, key=lambda row: (row.org_id, row.target, row.task_ids, row.outbox_id))


class RememberingPayloads(Payloads):
    """What does not change while a job exists is read once for each process."""

    def __init__(self, *arguments: Any, jobs: dict[UUID, Any]) -> None:
        super().__init__(*arguments)
        self._jobs = jobs


class SkewedClock:
    def __init__(self, now: Callable[[], datetime], skew: timedelta) -> None:
        self._now, self._skew = now, skew

    def now(self) -> datetime:
        return self._now() + self._skew


class Host:
    """One process of the platform."""

    def __init__(
        self,
        name: str,
        definitions: Definitions,
        rng: random.Random,
        clock: SkewedClock,
        faults: Faults,
        waker: SimulatedWaker,
        *,
        handed_out: HandedOut,
        run_checks: RunChecks,
        chore_ended: Callable[[Exception | None], None],
    ) -> None:
        self.name = name
        self.clock = clock
        self._faults = faults
        self._rng = rng
        state = definitions.state
        ids = Ids(clock.now, rng.getrandbits)
        self.claims = OrderedClaims(state, clock, ids, handed_out=handed_out)
        self.completions = Completions(state, clock, ids, waker, rng.random)
        self.events = EventAcceptance(state, clock, ids, waker)
        self.leases = Leases(state, clock)
        self.reaper = Reaper(state, clock, ids, waker, rng.random)
        self.admin = TaskAdmin(state, clock, ids, waker)
        self.quotas = Quotas(state, clock, ids, waker)
        self.deploys = Deploys(state, clock, ids, waker, CATALOG)
        self.requests = Requests(state, clock, ids, waker, CATALOG)
        self.payloads = RememberingPayloads(
            state, clock, lambda _request: "token", jobs=definitions.payload_jobs
        )
        self.outbox = OrderedOutbox(state, rng.random)
        self.outbox_admin = OutboxAdmin(state, clock, ids, waker)
        control = Control(state, clock, self.claims, self.completions, self.payloads, CATALOG)
        self.builds = Builds(state, clock, ids, waker, run_checks)
        self._chore_ended = chore_ended
        self.dispatcher = Dispatcher(state, clock, ids, waker, control, chores=[self._chore])

    def _chore(self) -> int:
        """The Dispatcher goes on whatever a chore raises: here that is seen."""
        try:
            done = self.builds.chore()
            self._chore_ended(None)
            return done
        except Unavailable:
            raise
        except Exception as error:
            self._chore_ended(error)
            raise

    def relay(
        self,
        queue: SimulatedQueue,
        runtime: SimulatedRuntime,
        wake_dispatcher: Callable[[], None],
    ) -> Relay:
        def to_dispatcher(_org_id: OrgId, _rows: Any) -> None:
            wake_dispatcher()

        sends: Mapping[str, Send] = {
            "worker": send_wakeups(queue, Runtime.WORKER),
            "dispatcher": to_dispatcher,
            "lambda": invoke_ready(
                self.claims,
                self.payloads,
                runtime,
                self._rng.random,
                concurrency=runtime.concurrency,
                crash_points=self._faults.point,
            ),
        }
        return Relay(self.outbox, self.clock, sends, crash_points=self._faults.point)


def queue_name(org_id: OrgId) -> str:
    return wake_queue(Runtime.WORKER, org_id)
