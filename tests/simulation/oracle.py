"""What must hold, kept apart from the services: from what callers saw and what the tables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.manual_clock import START
from tests.simulation.database import JobFacts
from tests.simulation.holders import Lease, check_holders
from tests.simulation.quotas import Quotas
from tests.simulation.source_states import SourceStates
from tests.simulation.wakeups import Wakeups
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.tasks.api import Completion, EventIn, StartRequest
from trace_core.tasks.claim import Claimed, Refused
from trace_core.tasks.complete import CompletionResult
from trace_core.tasks.model import TaskStatus

if TYPE_CHECKING:
    from tests.simulation.world import World

REFUSED = frozenset({"StaleAttempt", "OutcomeDiffers", "TaskCanceled", "Conflict"})
_PLACES_EVERY = 12
"""Steps between two looks at every task's place."""

_REAPED_WITHIN = 300.0
"""Seconds after which an expired lease must be gone, restarts of the reaper included."""

Expected = frozenset[str] | None
"""The answers that are right; None where the oracle cannot know."""
EventKey = tuple[str, str, str, int]
FenceKey = tuple[str, int, str]


@dataclass(frozen=True)
class Due:
    """When which function finds something next, as seconds since the epoch; and what is left."""

    relay: float | None
    dispatcher: float | None
    reaper: float | None
    stranded: float | None
    open: int
    deploys: int


class Violation(Exception):
    """Something happened that must never happen."""


class Oracle:
    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: dict[str, JobFacts] = {}
        self.limits: dict[str, int | None] = {}
        self._attempts: dict[UUID, tuple[int, int]] = {}
        self.learn(world.definitions.jobs, world.definitions.limits)
        self.leases: dict[str, Lease] = {}
        self.fences: dict[str, tuple[int, str]] = {}
        """The newest attempt of each task that was seen to start."""
        self.accepted: dict[FenceKey, tuple[str, str]] = {}
        """Body and status of each report that was answered well."""
        self.unknown: dict[FenceKey, set[str]] = {}
        self.announcements: dict[EventKey, str] = {}
        self.canceled_tasks: set[str] = set()
        self.uncertain: set[str] = set()
        self.retries: dict[str, int] = {}
        self.requests: dict[OrgId, set[int]] = {}
        self.source_states = SourceStates()
        self.exchanged: dict[str, tuple[str, int, str]] = {}
        self.tasks = 0
        self.due: Due | None = None
        """Kept in the end only."""
        self.kept: set[str] = set()
        """Sources that wait for their next slice and hold on to their capacity."""
        self.held: dict[str, int] = {}
        """How many held each counter after the last step."""
        self.drifts: dict[str, float] = {}
        """Counters that say more than is held, and since when."""
        self.strays: dict[str, float] = {}
        """Leases that no counter knows of, and since when."""
        self.wakeups = Wakeups(world)
        self.quotas = Quotas(world)

    def learn(self, jobs: Mapping[UUID, JobFacts], limits: Mapping[UUID, int | None]) -> None:
        self.jobs |= {str(job_id): job for job_id, job in jobs.items()}
        for job in jobs.values():
            least, most = self._attempts.get(job.job_id, (job.max_attempts, job.max_attempts))
            span = (min(least, job.max_attempts), max(most, job.max_attempts))
            self._attempts[job.job_id] = span
        self.limits |= {str(key): limit for key, limit in limits.items()}

    def fail(self, message: str) -> None:
        raise Violation(message)

    def must(self, holds: bool, message: str) -> None:
        if not holds:
            raise Violation(message)

    def attempts_allowed(self, job: JobFacts) -> tuple[int, int]:
        """The fewest and the most that any version of its DAG allowed it."""
        return self._attempts[job.job_id]

    def count(self, name: str) -> int:
        return len(self.world.state.look(name))

    def path_fault(self, org: OrgId, runtime: str) -> None:
        self.wakeups.path_fault(org, runtime)

    # After every step ----------------------------------------------------------------------------

    def observe(self, *, again: bool = False) -> None:
        state = self.world.state
        if not state.touched and not again:
            return
        draining = self.world.draining
        name = "observe_and_due" if draining else "observe"
        seen = state.glance(name, self.world.now().timestamp())
        if draining:
            self.due = Due(*seen[7])
        self.world.versions.observe()
        if self.world.broken is not None:
            raise self.world.broken
        leases = {row[0]: Lease(*row) for row in seen[0] or ()}
        for task, lease in leases.items():
            self._compare(task, self.leases.get(task), lease)
        self.leases = leases
        self.world.versions.look_at(leases)
        state.touched = False
        self.quotas.saw(seen[6] or [])
        self.kept = {row[0] for row in seen[3] or ()}
        check_holders(self, leases, seen[1] or [], seen[2] or [], seen[3] or [])
        self.tasks = seen[5]
        start = START.timestamp()
        self.wakeups.check([(org, runtime, at - start) for org, runtime, at in seen[4] or ()])
        if self.world.steps % _PLACES_EVERY == 0:
            self.check_places()

    def _compare(self, task: str, before: Lease | None, now: Lease) -> None:
        if before is None or (before.sequence, before.started) != (now.sequence, now.started):
            is_new = before is None or before.start_token != now.start_token or before.started
            self.world.versions.claimed(now, is_new=is_new)
        if now.started and now.token is not None:
            activation = self.world.job(UUID(now.job_id)).activation
            self._saw_start(task, now.attempt, now.token, activation)
        if now.canceled:
            self.canceled_tasks.add(task)
        overdue = self.world.seconds - (now.expires - START.timestamp())
        self.must(overdue < _REAPED_WITHIN, f"{self.name(task)}: expired {overdue:.0f} s ago")
        if before is not None and before.canceled and before.token == now.token:
            grown = now.expires > before.expires
            self.must(not grown, f"{self.name(task)}: canceled, and its lease was extended")

    def _saw_start(self, task: str, attempt: int, token: str, activation: str) -> None:
        known = self.fences.get(task)
        if known == (attempt, token):
            return
        if known is not None:
            newer = attempt > known[0] or (activation == "source" and attempt == known[0])
            self.must(newer, f"{self.name(task)}: attempt {attempt} started after {known[0]}")
        self.fences[task] = (attempt, token)
        self.canceled_tasks.discard(task)
        self.uncertain.discard(task)

    def check_places(self) -> None:
        for row in self.world.state.look("misplaced"):
            self.fail(f"{self.world.name(row.task_id)} is in {row.places}")

    def name(self, task: str) -> str:
        return self.world.name(UUID(task))

    # People --------------------------------------------------------------------------------------

    def canceled(self, task: TaskId, status: TaskStatus) -> None:
        if status is TaskStatus.CANCELED:
            self.canceled_tasks.add(str(task))
        if self.world.interleaved:
            self.uncertain.add(str(task))

    def cancel_unknown(self, task: TaskId) -> None:
        self.uncertain.add(str(task))

    def retry_asked(self, task: TaskId) -> None:
        self.retries[str(task)] = self.retries.get(str(task), 0) + 1

    def triggered(self, org: OrgId, number: int) -> None:
        self.requests.setdefault(org, set()).add(number)

    def is_canceled(self, claim: Claimed) -> bool:
        lease = self.leases.get(str(claim.task_id))
        return lease is not None and lease.canceled and lease.token == str(claim.lease_token)

    def handed_out(self, org: OrgId, claims: list[Claimed]) -> None:
        """Every claim and reservation that was answered, whoever asked for it."""
        self.quotas.started(org, claims, self.kept)

    def state_seen(self, claim: Claimed, value: Any) -> None:
        if not self.source_states.may_be(claim.task_id, value):
            lease = self._current_lease(claim)
            # A zombie reads what a newer slice has written since.
            self.must(lease is None, f"{self.name(str(claim.task_id))}: the state is lost")

    # Claims and starts ---------------------------------------------------------------------------

    def claimed(self, claims: list[Claimed], org: OrgId) -> None:
        for claim in claims:
            task, job = str(claim.task_id), self.world.job(claim.job_id)
            self.must(job.org_id == org, f"{self.name(task)} was claimed by another org")
            if not self.world.interleaved:
                self.must(task not in self.leases, f"{self.name(task)} was claimed twice")
            self._saw_start(task, claim.attempt, str(claim.lease_token), job.activation)

    def expect_start(self, request: StartRequest) -> Expected:
        lease = self.leases.get(str(request.task_id))
        if lease is None or lease.start_token != str(request.start_token):
            return frozenset({"NotFound"})
        if not lease.started:
            if lease.canceled:
                return frozenset({"Canceled"})
            # Of a version that is gone nothing begins; the sweep cancels it in a moment.
            return frozenset({"Held" if self._is_retired(lease.job_id) else "Claimed"})
        if lease.worker_id == request.runner_id:
            return frozenset({"Claimed"})
        return frozenset({"AlreadyRunning", "Canceled"})

    def _is_retired(self, job_id: str) -> bool:
        known = self.world.versions.jobs.get(job_id)
        return known is not None and known.standing == "retired"

    def started(self, request: StartRequest, expected: Expected, answer: Claimed | Refused) -> None:
        name = self.world.name(request.task_id)
        if isinstance(answer, Refused):
            self.check_answer(f"{name} exchange", expected, str(answer.reason))
            return
        self.check_answer(f"{name} exchange", expected, "Claimed")
        got = (request.runner_id, answer.attempt, str(answer.lease_token))
        first = self.exchanged.setdefault(str(request.start_token), got)
        self.must(first == got, f"{name}: one start token gave two leases")

    def exchange_lost(self, request: StartRequest) -> None:
        """The runner asks again under the same id: nothing to remember."""

    # Heartbeats, events, reports -----------------------------------------------------------------

    def check_answer(self, what: str, expected: Expected, answer: str) -> None:
        if expected is not None and answer not in expected and not self.world.interleaved:
            self.fail(f"{what}: {answer} instead of {' or '.join(sorted(expected))}")

    def _current_lease(self, claim: Claimed) -> Lease | None:
        lease = self.leases.get(str(claim.task_id))
        fence = (claim.attempt, str(claim.lease_token))
        if lease is None or not lease.started or (lease.attempt, lease.token) != fence:
            return None
        return lease

    def expect_heartbeat(self, claim: Claimed) -> Expected:
        lease = self._current_lease(claim)
        if lease is None:
            return REFUSED
        return frozenset({"Canceled" if lease.canceled else "Running"})

    def expect_emit(self, claim: Claimed, *, foreign: bool) -> Expected:
        if foreign:
            return frozenset({"NotFound"})
        lease = self._current_lease(claim)
        if lease is None:
            return REFUSED
        return frozenset({"TaskCanceled" if lease.canceled else "Accepted"})

    def announced(self, task: UUID, events: list[EventIn], verdict: str) -> None:
        ranks = ("refused", "unknown", "accepted")
        for event in events:
            key = (str(task), str(event.dataset_version), event.scope.key, event.revision)
            known = self.announcements.get(key, "refused")
            self.announcements[key] = max(known, verdict, key=ranks.index)

    def expect_completion(self, body: Completion, org: OrgId) -> Expected:
        task, key = str(body.task_id), _key(body)
        lease = self.leases.get(task)
        if org not in self.world.orgs:
            return frozenset({"NotFound"})
        if key in self.accepted:
            text, status = self.accepted[key]
            if text != _text(body):
                return REFUSED
            return frozenset({status})
        is_current = self.fences.get(task) == key[1:]
        if task in self.uncertain or (key in self.unknown and not is_current):
            return None
        if key in self.unknown and _text(body) not in self.unknown[key]:
            return None
        if not is_current:
            return None if body.status == "Canceled" else REFUSED
        if task in self.canceled_tasks or task in self.world.versions.replaced:
            # A report whose answer was lost may have been taken before the task was canceled.
            return None if body.status == "Canceled" or key in self.unknown else REFUSED
        if body.status == "Canceled":
            return REFUSED
        running = lease is not None and lease.token == key[2] and lease.started
        if body.status == "Yielded":
            return frozenset({"Yielded"}) if running else None
        if body.status == "Completed":
            return frozenset({"Completed"})
        return (
            frozenset({"Failed"}) if running else frozenset({"Failed", "TimedOut", "LeaseExpired"})
        )

    def completion_unknown(self, body: Completion) -> None:
        self.unknown.setdefault(_key(body), set()).add(_text(body))
        self.announced(body.task_id, body.events, "unknown")
        self.source_states.written(body, certain=False)

    def completed(self, body: Completion, expected: Expected, result: CompletionResult) -> str:
        answer = result.error.code if result.error is not None else str(result.status)
        name = f"{self.world.name(body.task_id)}/{body.attempt} reports {body.status}"
        self.check_answer(name, expected, answer)
        if result.error is not None:
            self.announced(body.task_id, body.events, "refused")
            return answer
        known = self.accepted.setdefault(_key(body), (_text(body), answer))
        self.must(known == (_text(body), answer), f"{name}: two outcomes, {known[1]} and {answer}")
        self.announced(body.task_id, body.events, "accepted")
        if self.fences.get(str(body.task_id)) == _key(body)[1:]:
            # A yield that is reported again later says nothing about what newer slices wrote.
            self.source_states.written(body, certain=True)
        return answer


def _key(body: Completion) -> FenceKey:
    return (str(body.task_id), body.attempt, str(body.lease_token))


def _text(body: Completion) -> str:
    return body.model_dump_json()
