"""One task of one job, one slot, two runners: what may happen to them, and what must hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.manual_clock import START, ManualClock
from tests.simulation.database import SQL, Definitions
from tests.simulation.ids import Bits, Deaf
from trace_core.dag.model import Runtime
from trace_core.kernel.ids import Ids, OrgId
from trace_core.tasks.api import Completion, StartRequest
from trace_core.tasks.claim import Claimed, Claims
from trace_core.tasks.complete import Completions
from trace_core.tasks.reaper import Reaper
from trace_core.tasks.statements import SQL as TASKS

ACTIONS = (
    "reserve", "start_a", "start_b", "complete_a", "complete_b", "fail_a", "reap", "due", "wait",
)  # fmt: skip
MAX_ATTEMPTS = 3
_WAIT = timedelta(seconds=130)
"""Longer than a lease, a reservation and every backoff: after it all of them are over, so that a
moment has passed or not, and nothing else about it matters."""
_VACUUM_EVERY = 500
"""States put back; the rows of earlier ones slow every look."""


@dataclass(frozen=True)
class Kept:
    rows: str
    at: datetime
    token: UUID | None
    held: dict[str, Claimed]
    newest: Claimed | None
    ended: bool


class SmallWorld:
    """One task of the job `one`, which needs the only slot of its pool."""

    actions = ACTIONS
    by_itself = ("wait", "reap", "due", "reserve")
    ends_within = 6 * MAX_ATTEMPTS * 3

    def __init__(self, definitions: Definitions) -> None:
        self._state = definitions.state
        self.org: OrgId = definitions.orgs["mixed", 0]
        definitions.reset([])
        job = next(j for j in definitions.jobs.values() if j.org_id == self.org and j.name == "one")
        self.clock = ManualClock(START)
        self._ids = Ids(self.clock.now, Bits())
        self.task_id = self._ids.uuid()
        params = {"task_id": self.task_id, "org_id": self.org, "job_id": job.job_id, "now": START}
        with self._state.connection() as connection:
            connection.execute(SQL["add_one_task"], params)
        waker = Deaf()
        self._claims = Claims(self._state, self.clock, self._ids)
        self._completions = Completions(self._state, self.clock, self._ids, waker, lambda: 0.5)
        self._reaper = Reaper(self._state, self.clock, self._ids, waker, lambda: 0.5)
        self._token: UUID | None = None
        self._held: dict[str, Claimed] = {}
        self._newest: Claimed | None = None
        self._ended = False
        self.problem: str | None = None
        self._put_back = 0

    def act(self, action: str) -> bool:
        """Whether the action was possible at all; what it did is judged here."""
        verb, _, runner = action.partition("_")
        act: dict[str, Callable[[str], bool]] = {
            "reserve": self._reserve, "start": self._start, "complete": self._complete,
            "fail": self._fail, "reap": self._reap, "due": self._due, "wait": self._wait,
        }  # fmt: skip
        possible = act[verb](runner)
        if possible and self.problem is None:
            self.problem = self._judge()
        return possible

    def _reserve(self, _runner: str) -> bool:
        reserved = self._claims.reserve(self.org, Runtime.LAMBDA, 1)
        if reserved:
            self._token = reserved[0].start_token
        return bool(reserved)

    def _start(self, runner: str) -> bool:
        if self._token is None:
            return False
        request = StartRequest(task_id=self.task_id, start_token=self._token, runner_id=runner)
        answer = self._claims.start(request)
        if not isinstance(answer, Claimed):
            return False
        if self._newest is not None and answer.attempt < self._newest.attempt:
            self.problem = f"attempt {answer.attempt} after {self._newest.attempt}"
        known = self._held.get(runner)
        if (
            self._newest is not None
            and answer.attempt == self._newest.attempt
            and (known is None or known.lease_token != answer.lease_token)
        ):
            self.problem = "one attempt was given to two runners"
        self._held[runner] = self._newest = answer
        return True

    def _report(self, runner: str, status: str) -> bool:
        claim = self._held.get(runner)
        if claim is None:
            return False
        fence = claim.fence
        body = Completion.model_validate(
            {
                "task_id": fence.task_id,
                "attempt": fence.attempt,
                "lease_token": fence.lease_token,
                "status": status,
            }
        )
        [result] = self._completions.complete(self.org, [body])
        is_newest = self._newest is not None and self._newest.lease_token == claim.lease_token
        del self._held[runner]
        if status == "Completed" and is_newest and result.error is not None and not self._ended:
            self.problem = f"the current attempt was refused: {result.error.code}"
        if result.error is None and not is_newest:
            self.problem = f"a stale report was accepted as {result.status}"
        if result.error is None and (status == "Completed" or is_newest):
            # Said once, the attempt has said all: whatever comes next is another attempt.
            self._ended = status == "Completed"
        return True

    def _complete(self, runner: str) -> bool:
        return self._report(runner, "Completed")

    def _fail(self, runner: str) -> bool:
        return self._report(runner, "Failed")

    def _reap(self, _runner: str) -> bool:
        return bool(self._reaper.run_once().reaped)

    def _due(self, _runner: str) -> bool:
        rows = self._state.write(
            "move_due",
            TASKS["move_due"],
            {
                "now": self.clock.now(),
                "limit": 10,
                "outbox_series": self._ids.series(),
                "wake_fanout": 1,
            },
        )
        return bool(rows)

    def _wait(self, _runner: str) -> bool:
        self.clock.advance(_WAIT)
        return True

    def keep(self) -> Kept:
        """All that is left of this state: the rows, the clock, and what the runners hold."""
        with self._state.connection() as connection:
            rows = connection.execute(SQL["keep_small_world"]).fetchall()
        return Kept(
            json.dumps(rows[0].kept), self.clock.now(), self._token, dict(self._held),
            self._newest, self._ended,
        )  # fmt: skip

    def put_back(self, kept: Kept) -> None:
        with self._state.connection() as connection:
            if self._put_back % _VACUUM_EVERY == 0:
                connection.execute(SQL["vacuum"], prepare=False)
            connection.execute(SQL["put_back_small_world"], {"kept": kept.rows})
        self._put_back += 1
        self.clock.advance(kept.at - self.clock.now())
        self._token, self._held = kept.token, dict(kept.held)
        self._newest, self._ended, self.problem = kept.newest, kept.ended, None

    def _judge(self) -> str | None:
        row = self._look()
        if len(row["places"]) != 1:
            return f"the task is in {row['places']}"
        if row["held"] != row["leases"] or row["running"] != [row["leases"]] or row["leases"] > 1:
            return f"{row['leases']} leases, {row['held']} slots, counters {row['running']}"
        numbers = [attempt[0] for attempt in row["attempts"]]
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) > MAX_ATTEMPTS:
            return f"attempts {numbers}"
        if sum(attempt[1] == "Completed" for attempt in row["attempts"]) > 1:
            return "completed twice"
        return None

    def _look(self) -> dict[str, Any]:
        with self._state.connection() as connection:
            rows = connection.execute(SQL["small_world"], {"task_id": self.task_id}).fetchall()
        return rows[0].seen  # type: ignore[no-any-return]

    def key(self) -> str:
        """What distinguishes this state, with times as what they mean to the next action."""
        now = self.clock.now()
        with self._state.connection() as connection:
            row = connection.execute(
                SQL["small_world_key"], {"task_id": self.task_id, "now": now}
            ).fetchone()
        held = {runner: self._mark(claim) for runner, claim in sorted(self._held.items())}
        return f"{row}|{held}|{self._newest and self._mark(self._newest)}|{self._ended}"

    @staticmethod
    def _mark(claim: Claimed) -> tuple[int, int]:
        return claim.attempt, claim.lease_sequence

    @property
    def is_over(self) -> bool:
        return self._look()["places"] == ["ended"]
