"""Runs of tasks: what a worker or a lambda does with a lease, well or badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tests.simulation import bodies
from tests.simulation.database import JobFacts
from tests.simulation.faults import Crash
from tests.simulation.hosts import Host
from trace_core.kernel.errors import TraceError, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.tasks.api import Completion, EventsRequest
from trace_core.tasks.claim import Claimed

if TYPE_CHECKING:
    from tests.simulation.actors import Worker
    from tests.simulation.world import World

Answer = TypeVar("Answer")


class Lost(Exception):
    """The call got no answer: whether it was done is not known."""


class Run:
    """One lease in somebody's hands, until it is reported or forgotten."""

    def __init__(
        self, world: World, org_id: OrgId, claim: Claimed, worker: Worker | None = None
    ) -> None:
        self.world, self.org_id, self.claim, self.worker = world, org_id, claim, worker
        self.job: JobFacts = world.job(claim.job_id)
        self.name = f"run {world.name(claim.task_id)}/{claim.attempt}.{claim.lease_sequence}"
        self.dead = False
        self.body: Completion | None = None
        self._ends_at = 0.0
        self.plan = "complete"
        self.is_source = self.job.activation == "source"

    def crashed(self) -> None:
        """Calls catch this themselves; nothing else of a run passes a named point."""

    unavailable = crashed

    def call(self, what: Callable[[Host], Answer]) -> Answer:
        """A call to either API host. A host that dies under it is a lost answer."""
        self.world.interleaved = False
        try:
            return what(self.world.any_host())
        except (Crash, Unavailable) as error:
            raise Lost(str(error)) from None

    # Plans ---------------------------------------------------------------------------------------

    def start(self) -> None:
        rng, faults = self.world.rng, self.world.faults
        duration = rng.uniform(0.3, 12)
        if faults.happens("run_dead", 0.04):
            self.abandoned(for_good=True)
            return
        if faults.happens("run_stalled", 0.09):
            # Mostly just past the lease: late, and before the next attempt has begun.
            duration = rng.uniform(115, rng.choice((160, 160, 260)))
        elif faults.happens("run_timed_out", 0.02):
            # Alive all the time, and longer than its job allows.
            duration = self.job.timeout_seconds + rng.uniform(1, 60)
            self._heartbeat_later()
        elif self.world.is_poisoned(self.claim.task_id, self.is_source) or faults.happens(
            "run_failed", 0.12
        ):
            self.plan = "fail"
        elif faults.happens("run_failed_for_good", 0.04):
            self.plan = "fail_for_good"
        elif not self.world.draining and rng.random() < 0.2:
            duration = rng.uniform(35, 100)
            self._heartbeat_later()
        self._ends_at = self.world.seconds + duration
        if self.plan == "complete" and not self.is_source and rng.random() < 0.3:
            self._later(duration * rng.random(), "emits", self._emit)
        if faults.happens("stale_report", 0.06):
            self._later(duration * rng.random(), "guesses a token", self._guess)
        self._later(duration, "reports", self._report)

    def _later(self, wait: float, label: str, act: Callable[[], object]) -> None:
        self.world.later(wait, self, label, act)  # type: ignore[arg-type]

    def abandoned(self, *, for_good: bool = False) -> None:
        """The process is gone, or cut off: then it comes back as a zombie."""
        rng = self.world.rng
        if not for_good and not self.dead and rng.random() < 0.35:
            self.worker = None
            self._later(rng.uniform(30, 300), "is back", self._report)
            return
        self.dead = True
        if self.worker is not None and for_good:
            self.worker.finished(self)

    # Heartbeats and events -----------------------------------------------------------------------

    def _heartbeat_later(self) -> None:
        self._later(30.0, "heartbeats", self._heartbeat)

    def _heartbeat(self) -> str | None:
        if self.dead or self.body is not None:
            return None
        if self.world.seconds + 5 < self._ends_at:
            self._heartbeat_later()
        expected = self.world.oracle.expect_heartbeat(self.claim)
        try:
            status = self.call(lambda host: host.leases.heartbeat(self.org_id, self.claim.fence))
            answer = str(status.status)
        except Lost:
            return "lost"
        except TraceError as error:
            answer = error.code
        self.world.oracle.check_answer(f"{self.name} heartbeat", expected, answer)
        return answer

    def _emit(self) -> str | None:
        if self.dead or self.body is not None:
            return None
        events = bodies.events(self)[:1]
        org = self.org_id
        if self.world.rng.random() < 0.1:
            org = self.world.foreign_org
            self.world.faults.kinds["foreign_call"] += 1
        expected = self.world.oracle.expect_emit(self.claim, foreign=org != self.org_id)
        request = EventsRequest(**bodies.fence(self.claim), events=events)
        try:
            self.call(lambda host: host.events.accept(org, request))
            answer = "Accepted"
        except Lost:
            self.world.oracle.announced(self.claim.task_id, events, "unknown")
            return "lost"
        except TraceError as error:
            answer = error.code
        self.world.oracle.check_answer(f"{self.name} emit", expected, answer)
        verdict = "accepted" if answer == "Accepted" else "refused"
        self.world.oracle.announced(self.claim.task_id, events, verdict)
        return answer

    # Reports -------------------------------------------------------------------------------------

    def _report(self) -> str | None:
        if self.dead:
            return None
        if self.body is None:
            try:
                self.body = bodies.completion(self)
            except Lost:
                self._later(2.0, "reports", self._report)
                return "lost its payload"
        batch = [self, *self._companions()]
        self.world.interleaved = False
        expected = [self.world.oracle.expect_completion(run.body, self.org_id) for run in batch]
        reports = [run.body for run in batch]
        try:
            results = self.call(lambda host: host.completions.complete(self.org_id, reports))
        except Lost:
            for run in batch:
                self.world.oracle.completion_unknown(run.body)
                run._later(self.world.rng.uniform(1, 20), "reports again", run._report)
            return f"{self.plan} lost"
        answers = []
        for run, expectation, result in zip(batch, expected, results, strict=True):
            answer = self.world.oracle.completed(run.body, expectation, result)
            run._reported(answer)
            answers.append(f"{run.name[4:]} {answer}")
        return f"{self.plan}: {', '.join(answers)}"

    def _companions(self) -> list[Run]:
        """Others of the same worker that are done at the same time go in the same call."""
        if self.worker is None or self.world.rng.random() > (1 if self.world.draining else 0.35):
            return []
        found = []
        for run in self.worker.runs:
            near = 0 < run._ends_at - self.world.seconds < 15
            if run is not self and near and run.body is None and not run.dead:
                try:
                    run.body = bodies.completion(run)
                except Lost:
                    continue
                found.append(run)
        return found

    def _reported(self, answer: str) -> None:
        self.dead = True
        if self.worker is not None:
            self.worker.finished(self)
        faults, wait = self.world.faults, self.world.rng.uniform(0.5, 60)
        if faults.happens("completion_repeated", 0.06):
            self._later(wait, "repeats", lambda: self._repeat(self.body))
        if faults.happens("completion_other_body", 0.05):
            other = Completion(**bodies.fence(self.claim), status="Failed", error_code="Other")
            self._later(wait, "contradicts itself", lambda: self._repeat(other))
        if faults.happens("stale_report", 0.04):
            self._later(wait, "guesses a token", self._guess)
        if faults.happens("foreign_call", 0.04):
            self._later(wait, "is taken over", self._report_from_abroad)

    def _guess(self) -> str:
        token = UUID(int=self.world.rng.getrandbits(128), version=4)
        fence = bodies.fence(self.claim) | {"lease_token": token}
        return self._repeat(Completion(**fence, status="Completed"))

    def _repeat(self, body: Completion) -> str:
        expected = self.world.oracle.expect_completion(body, self.org_id)
        try:
            [result] = self.call(lambda host: host.completions.complete(self.org_id, [body]))
        except Lost:
            self.world.oracle.completion_unknown(body)
            return "lost"
        return self.world.oracle.completed(body, expected, result)

    def _report_from_abroad(self) -> str:
        body = Completion(**bodies.fence(self.claim), status="Completed")
        org = self.world.foreign_org
        expected = self.world.oracle.expect_completion(body, org)
        try:
            [result] = self.call(lambda host: host.completions.complete(org, [body]))
        except Lost:
            return "lost"
        return self.world.oracle.completed(body, expected, result)
