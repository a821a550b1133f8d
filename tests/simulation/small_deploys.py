"""One source, one edited job, two events and a rewrite: what may happen to them across versions.

Every action is one transaction of the real services, or two at the same time: a switch, and an
event that waits for it. In each state pointers, routes, standings and places agree; once nothing is
left to do, every accepted event is reflected once in what is current.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.manual_clock import START, ManualClock
from tests.simulation.database import SQL, Definitions
from tests.simulation.ids import Bits, Deaf
from tests.simulation.shapes import catalog
from tests.simulation.waiting import Waiting
from trace_core.dag.model import Runtime
from trace_core.deploy.builds import Builds
from trace_core.deploy.service import Deploys
from trace_core.deploy.statements import SQL as DEPLOY
from trace_core.identity.model import SYSTEM
from trace_core.identity.orgs import Orgs
from trace_core.kernel.errors import DeployUnderWay, Invalid, TaskCanceled, TraceError
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.tasks.api import Completion, EventsRequest
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.events import EventAcceptance

FIRST = """
version: 1
name: small
jobs:
  - {name: src, activation: source, runtime: worker, operator: made_up_source,
     source: {kind: always_on}, outputs: 1, update_strategy: replace}
  - {name: b, activation: reactive, runtime: worker, operator: made_up_work,
     execution_strategy: PerUpdate, inputs: [{from: {job: src, output: 0}}], outputs: 1,
     update_strategy: replace}
"""
EDITED = FIRST.replace("made_up_work", "made_up_rework")
EVENTS = {"accept_0": (0, 0), "accept_1": (1, 0), "rewrite": (0, 1)}
SWITCHES = ("deploy", "cutover", "rollback")
BY_ITSELF = ("cancel", "fill", "revive", "build", "cutover", "end", "claim_work", "claim_rework",
             "report_work", "report_rework")  # fmt: skip
ACTIONS = (*EVENTS, "deploy", "rollback", *BY_ITSELF,
           *(f"{switch}+event" for switch in SWITCHES), "give_up")  # fmt: skip
_VACUUM_EVERY = 200


@dataclass(frozen=True)
class Kept:
    rows: str
    key: str
    held: dict[str, Claimed]
    done: tuple[str, ...]
    pin: int


class SmallDeploys:
    """Two events and a rewrite, a deploy and one more of the same definition, one rollback, and one
    build that is given up: more states than anybody walks to the end. Those below are walked."""

    events: tuple[str, ...] = tuple(EVENTS)
    deploys, rollbacks, cancels = 2, 1, 1
    actions = ACTIONS
    by_itself = BY_ITSELF
    ends_within = 30

    def __init__(self, definitions: Definitions) -> None:
        self._state = definitions.state
        definitions.reset([])
        self.clock = ManualClock(START)
        ids = Ids(self.clock.now, Bits())
        waker = Deaf()
        self.org: OrgId = Orgs(self._state, self.clock, ids).ensure_org("small")
        self._claims = Claims(self._state, self.clock, ids)
        self._completions = Completions(self._state, self.clock, ids, waker, lambda: 0.5)
        self._acceptance = EventAcceptance(self._state, self.clock, ids, waker)
        self._deploys = Deploys(self._state, self.clock, ids, waker, catalog())
        self._builds = Builds(self._state, self.clock, ids, waker)
        self._waiting = Waiting(self._state)
        self._held: dict[str, Claimed] = {}
        self._done: list[str] = []
        """Events, deploys, rollbacks and cancels so far, in order."""
        self._pin = 0
        """The number of the source's output at which the last build began."""
        self.problem: str | None = None
        self._puts = 0
        self._source = self._begin()
        self._key = self._read_key()

    def _begin(self) -> Claimed:
        """Version 1 is active, and version 2 is known, as if nobody had deployed it yet."""
        self._deploys.deploy(self.org, FIRST, "small.yaml", SYSTEM)
        self._deploys.deploy(self.org, EDITED, "small.yaml", SYSTEM)
        self._deploys.cancel_deploy(self.org, "small", SYSTEM)
        while self._builds.run_once().did_something:
            pass
        (source,) = self._claims.claim(self.org, Runtime.WORKER, 1, "source")
        rows = self._run("small_deploys_begin", {"org_id": self.org})
        self._dataset, self._version = rows[0].dataset_uuid, rows[0].dataset_version
        return source

    def _run(self, name: str, params: dict[str, Any]) -> list[Any]:
        with self._state.connection() as connection:
            cursor = connection.execute(SQL[name], params)
            return cursor.fetchall() if cursor.description else []

    # Actions -------------------------------------------------------------------------------------

    def act(self, action: str) -> bool:
        """Whether the action changed anything; what it did is judged here."""
        before = self._key
        verb, _, job = action.partition("_")
        if action in EVENTS:
            possible = self._announce(action)
        elif action.endswith("+event"):
            possible = self._both(action.partition("+")[0])
        elif verb in ("claim", "report"):
            possible = (self._claim if verb == "claim" else self._report)(job)
        else:
            act: Callable[[], bool] = getattr(self, f"_{action}")
            possible = act()
        self._key = self._read_key() if possible else before
        if self._key != before and self.problem is None:
            self.problem = self._judge()
        return self.problem is not None or self._key != before

    def _next_event(self) -> str | None:
        return next((event for event in self.events if event not in self._done), None)

    def _announce(self, event: str) -> bool:
        known = event in self.events and event not in self._done
        if not known or (event == "rewrite" and "accept_0" not in self._done):
            return False
        cursor, revision = EVENTS[event]
        fence = self._source.fence
        request = EventsRequest.model_validate(
            {
                "task_id": fence.task_id, "attempt": fence.attempt,
                "lease_token": fence.lease_token,
                "events": [{"dataset_uuid": self._dataset, "dataset_version": self._version,
                            "cursor": cursor, "revision": revision}],
            }
        )  # fmt: skip
        # Ids follow the clock, and tasks of one job are claimed in the order of their ids.
        self.clock.advance(timedelta(seconds=1))
        self._acceptance.accept(self.org, request)
        self._done.append(event)
        return True

    def _both(self, switch: str) -> bool:
        """A switch, and an event that comes when it is about to commit."""
        event = self._next_event()
        if event is None:
            return False
        began = False

        def point(name: str) -> None:
            nonlocal began
            if name == f"{switch}:before_commit" and not began:
                began = True
                self._waiting.begin(lambda: _ignore(self._announce(event)))

        self._state.attach(point, lambda _name: None, self._waiting.end)
        try:
            act: Callable[[], bool] = getattr(self, f"_{switch}")
            act()
        finally:
            self._state.attach(lambda _name: None, lambda _name: None, lambda: None)
        return began

    def _deploy(self) -> bool:
        if self._done.count("deploy") >= self.deploys:
            return False
        try:
            result = self._deploys.deploy(self.org, EDITED, "small.yaml", SYSTEM)
        except DeployUnderWay:
            return False
        if result.created:
            self._done.append("deploy")
        if result.builds:
            self._pin = self._run("small_deploys_pin", {"org_id": self.org})[0].pin
        return result.created

    def _rollback(self) -> bool:
        if self._done.count("rollback") >= self.rollbacks:
            return False
        try:
            self._deploys.rollback(self.org, "small", SYSTEM)
        except (DeployUnderWay, Invalid):
            return False
        self._done.append("rollback")
        return True

    def _give_up(self) -> bool:
        if self._done.count("give_up") >= self.cancels:
            return False
        try:
            self._deploys.cancel_deploy(self.org, "small", SYSTEM)
        except TraceError:
            return False
        self._done.append("give_up")
        return True

    def _unended(self) -> list[Any]:
        return self._state.read(DEPLOY["unended_deploys"], {})

    def _cancel(self) -> bool:
        return bool(self._builds._cancel_leases() + self._builds._cancel())

    def _fill(self) -> bool:
        return sum(self._builds._fill(deploy) for deploy in self._unended()) > 0

    def _revive(self) -> bool:
        return sum(self._builds._revive(deploy) for deploy in self._unended()) > 0

    def _each(self, statuses: tuple[str, ...], act: Callable[[Any], object]) -> bool:
        found = [deploy for deploy in self._unended() if deploy.status in statuses]
        for deploy in found:
            act(deploy)
        return bool(found)

    def _build(self) -> bool:
        return self._each(("Building",), self._builds._look_at_build)

    def _cutover(self) -> bool:
        return self._each(("Checking",), self._builds._check_and_cut_over)

    def _end(self) -> bool:
        return self._each(("Draining", "Canceled"), self._builds._end)

    def _claim(self, job: str) -> bool:
        if job in self._held:
            return False
        heads = self._run("small_deploys_head", {"operator": f"made_up_{job}"})
        if not heads:
            return False
        (answer,) = self._claims.claim_ids(self.org, [TaskId(heads[0].task_id)], "worker")
        if not isinstance(answer, Claimed):
            return False
        self._held[job] = answer
        if heads[0].standing not in ("active", "candidate"):
            self.problem = f"a task of {heads[0].standing} {job} was claimed"
        return True

    def _report(self, job: str) -> bool:
        claim = self._held.pop(job, None)
        if claim is None:
            return False
        for status in ("Completed", "Canceled"):
            fence = claim.fence
            body = Completion.model_validate(
                {
                    "task_id": fence.task_id, "attempt": fence.attempt,
                    "lease_token": fence.lease_token, "status": status,
                }
            )  # fmt: skip
            [result] = self._completions.complete(self.org, [body])
            if result.error is None:
                return True
            if not isinstance(result.error, TaskCanceled):
                break
        self.problem = f"a report was refused: {result.error}"
        return True

    # States --------------------------------------------------------------------------------------

    def keep(self) -> Kept:
        rows = self._run("keep_small_deploys", {"org_id": self.org})
        return Kept(
            json.dumps(rows[0].kept), self._key, dict(self._held), tuple(self._done), self._pin
        )

    def put_back(self, kept: Kept) -> None:
        with self._state.connection() as connection:
            if self._puts % _VACUUM_EVERY == 0:
                connection.execute(SQL["vacuum"], prepare=False)
            connection.execute(SQL["put_back_small_deploys"], {"kept": kept.rows})
        self._puts += 1
        self._key, self._held, self._done = kept.key, dict(kept.held), list(kept.done)
        self._pin, self.problem = kept.pin, None

    def key(self) -> str:
        return self._key

    def _read_key(self) -> str:
        """Without ids and times: jobs by what they run, tasks by what made them."""
        seen = self._run("small_deploys_key", {"org_id": self.org})[0].key
        counts = [self._done.count(each) for each in ("deploy", "rollback", "give_up")]
        return f"{json.dumps(seen)}|{counts}|{self._pin}"

    def _judge(self) -> str | None:
        problems = self._run("small_deploys_problems", {"org_id": self.org})[0].problems
        return ", ".join(problems) or None

    @property
    def is_over(self) -> bool:
        """Nothing is left to do, and each event is reflected once in what is current."""
        row = self._run("small_deploys_rest", {"org_id": self.org, "pin": self._pin})[0]
        return not (row.open or row.missing)


def _ignore(_answer: object) -> None:
    """Of a turn in a thread of its own."""


class ThereAndBack(SmallDeploys):
    """A deploy, its rollback, and the same deploy again, with one event and its rewrite."""

    events = ("accept_0", "rewrite")
    cancels = 0


class GivenUp(SmallDeploys):
    """A build that is given up and begins again, with two events."""

    events = ("accept_0", "accept_1")
    rollbacks = 0


class Forward(SmallDeploys):
    """One deploy and its rollback, with all events."""

    deploys, cancels = 1, 0
