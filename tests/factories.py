"""A small world for tests: the real services on one database, with an org and a DAG."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.manual_clock import ManualClock
from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Runtime
from trace_core.database.state import StateDatabase
from trace_core.deploy.backfills import Backfills
from trace_core.deploy.builds import Builds
from trace_core.deploy.plans import Plans
from trace_core.deploy.requests import Requests
from trace_core.deploy.service import Deploys
from trace_core.dispatcher.control import Control
from trace_core.dispatcher.service import Dispatcher
from trace_core.identity.model import SYSTEM
from trace_core.identity.orgs import Orgs
from trace_core.kernel.ids import Ids, OrgId
from trace_core.operators.catalog import builtin_catalog
from trace_core.operators.configs import OperatorConfig
from trace_core.outbox.admin import OutboxAdmin
from trace_core.outbox.relay import Relay, Send
from trace_core.outbox.store import Outbox
from trace_core.ports.waker import Function
from trace_core.tasks.admin import TaskAdmin
from trace_core.tasks.api import Completion, EventIn, EventsRequest
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.complete import CompletionResult, Completions
from trace_core.tasks.events import Accepted, EventAcceptance
from trace_core.tasks.leases import Leases
from trace_core.tasks.payload import Payloads
from trace_core.tasks.quotas import Quotas
from trace_core.tasks.reaper import Reaper
from trace_core.tasks.views import Views


class AnyConfig(OperatorConfig):
    """Nothing to set."""


def stand_in(name: str, outputs: range = range(5)) -> OperatorSpec:
    """An operator that only the test itself plays."""
    return OperatorSpec(
        name=name,
        code_version="1",
        activations=frozenset(Activation),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=AnyConfig,
        description="Played by the test.",
        outputs=outputs,
    )


CATALOG: Catalog = builtin_catalog().with_operators(stand_in("work"), stand_in("rework"))

CHAIN = """
version: 1
name: chain
jobs:
  - {name: a, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: a, output: 0}}], outputs: 1, update_strategy: replace}
  - {name: c, activation: reactive, runtime: worker, operator: work, execution_strategy: PerUpdate,
     inputs: [{from: {job: b, output: 0}}], outputs: 1, update_strategy: replace}
"""


class RecordingWaker:
    def __init__(self) -> None:
        self.woken: list[Function] = []

    def wake(self, function: Function) -> None:
        self.woken.append(function)


class World:
    """What a test needs to drive the services by hand, with itself as the worker."""

    def __init__(self, state: StateDatabase, clock: ManualClock, ids: Ids) -> None:
        self.state, self.clock, self.ids = state, clock, ids
        self.jitter = random.Random(7).random  # noqa: S311
        self.waker = RecordingWaker()
        self.claims = Claims(state, clock, ids)
        self.completions = Completions(state, clock, ids, self.waker, self.jitter)
        self.acceptance = EventAcceptance(state, clock, ids, self.waker)
        self.leases = Leases(state, clock)
        self.payloads = Payloads(state, clock, lambda request: f"token-of-{request.task_id}")
        self.reaper = Reaper(state, clock, ids, self.waker, self.jitter)
        self.admin = TaskAdmin(state, clock, ids, self.waker)
        self.views = Views(state, clock)
        self.deploys = Deploys(state, clock, ids, self.waker, CATALOG)
        self.builds = Builds(state, clock, ids, self.waker)
        self.plans = Plans(state, CATALOG)
        self.backfills = Backfills(state, clock, ids, self.waker, self.admin)
        self.requests = Requests(state, clock, ids, self.waker, CATALOG)
        self.outbox = Outbox(state, self.jitter)
        self.outbox_admin = OutboxAdmin(state, clock, ids, self.waker)
        self.control = Control(state, clock, self.claims, self.completions, self.payloads, CATALOG)
        self.quotas = Quotas(state, clock, ids, self.waker)
        self.dispatcher = Dispatcher(state, clock, ids, self.waker, self.control)
        self.org = Orgs(state, clock, ids).ensure_org("acme")

    def another_org(self, name: str = "other") -> OrgId:
        return Orgs(self.state, self.clock, self.ids).ensure_org(name)

    def deploy(self, text: str = CHAIN, org: OrgId | None = None) -> None:
        self.deploys.deploy(org or self.org, text, "test.yaml", SYSTEM)

    def pass_time(self, **duration: float) -> None:
        self.clock.advance(timedelta(**duration))

    def claim(
        self, limit: int = 1, runtime: Runtime = Runtime.WORKER, org: OrgId | None = None
    ) -> list[Claimed]:
        return self.claims.claim(org or self.org, runtime, limit, "worker-1")

    def claim_one(self, runtime: Runtime = Runtime.WORKER) -> Claimed:
        (claim,) = self.claim(1, runtime)
        return claim

    def output(self, job: str, index: int = 0, org: OrgId | None = None) -> tuple[UUID, UUID]:
        """The dataset and its current version behind one output of a job."""
        row = self.rows(
            "SELECT v.dataset_uuid, v.dataset_version FROM dataset_versions v"
            " JOIN jobs j ON j.job_id = v.job_id"
            " WHERE j.name = %(job)s AND v.output_index = %(index)s AND j.org_id = %(org)s"
            " ORDER BY array_position(ARRAY['active', 'held', 'candidate', 'retired'], j.standing)",
            job=job,
            index=index,
            org=org or self.org,
        )[0]
        return row.dataset_uuid, row.dataset_version

    def event(self, job: str, cursor: int, revision: int = 0, index: int = 0) -> EventIn:
        dataset, version = self.output(job, index)
        return EventIn(
            dataset_uuid=dataset, dataset_version=version, cursor=cursor, revision=revision
        )

    def accept(self, claim: Claimed, events: Sequence[EventIn]) -> Accepted:
        fence = claim.fence
        return self.acceptance.accept(
            claim.org_id,
            EventsRequest(
                task_id=fence.task_id,
                attempt=fence.attempt,
                lease_token=fence.lease_token,
                events=list(events),
            ),
        )

    def report(self, claim: Claimed, status: str, **fields: Any) -> CompletionResult:
        (result,) = self.completions.complete(claim.org_id, [completion(claim, status, **fields)])
        return result

    def complete(self, claim: Claimed, **fields: Any) -> CompletionResult:
        return self.report(claim, "Completed", **fields)

    def feed(self, *cursors: int) -> Claimed:
        """The source's slice, running, after it announced these cursors."""
        source = self.claim_one()
        self.accept(source, [self.event("a", cursor) for cursor in cursors])
        return source

    def status_of(self, claim: Claimed) -> str:
        return str(self.views.task(self.org, claim.task_id)["status"])

    def relay(self, **sends: Send) -> Relay:
        return Relay(self.outbox, self.clock, sends)

    def pending_wakes(self) -> list[str]:
        return [
            row.target
            for row in self.rows("SELECT target FROM outbox WHERE status = 'Pending' ORDER BY 1")
        ]

    def clear_outbox(self) -> None:
        self.state.write("test", "DELETE FROM outbox", {})

    def rows(self, sql: str, **params: Any) -> list[Any]:
        return self.state.read(sql, params)

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) AS n FROM {table}")[0].n)  # noqa: S608


def completion(claim: Claimed, status: str = "Completed", **fields: Any) -> Completion:
    fence = claim.fence
    return Completion.model_validate(
        {
            "task_id": fence.task_id,
            "attempt": fence.attempt,
            "lease_token": fence.lease_token,
            "status": status,
            **fields,
        }
    )
