"""What must hold once everything has ended, read from the tables."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.database import JobFacts
from tests.simulation.reflected import Reflected
from trace_core.kernel.scopes import Scope

if TYPE_CHECKING:
    from tests.simulation.world import World

_FAILURES = frozenset({"Failed", "TimedOut", "LeaseExpired", "Lapsed"})
_CONTROL = frozenset(
    {"range_request", "range_request_anew", "trigger_cron", "range_splitter", "range_aggregator"}
)


def check(world: World) -> None:
    _Final(world).check()


class _Final:
    def __init__(self, world: World) -> None:
        self.world, self.oracle = world, world.oracle
        world.learn_jobs()
        self.jobs = world.jobs
        look = world.state.look
        self.tasks = {row.task_id: row for row in look("all_tasks")}
        self.events = look("all_events")
        self.attempts: dict[UUID, list[Any]] = defaultdict(list)
        for row in look("all_attempts"):
            self.attempts[row.task_id].append(row)

    def check(self) -> None:
        self.oracle.check_places()
        for row in self.world.state.look("all_outbox"):
            self.oracle.fail(f"an outbox row for {row.target} is left: {row.status}")
        self.reflected = Reflected(self.world, self.tasks, self.events, self.attempts)
        self.reflected.check()
        self._announcements()
        for task_id, task in self.tasks.items():
            self._attempts(task, self.attempts.get(task_id, []))
        self._outcomes()
        self._outputs()
        self._states()
        self._requests()
        for job in self.jobs.values():
            if job.operator == "range_aggregator":
                self._aggregated(job)
            if job.operator == "range_splitter":
                self._split(job)

    def _name(self, task_id: UUID) -> str:
        return f"{self.world.name(task_id)} ({self.jobs[self.tasks[task_id].job_id].name})"

    def _announcements(self) -> None:
        """What was accepted is there, and nothing is that nobody was told was accepted."""
        stored = {
            (str(e.producer_task_id), str(e.dataset_version), e.scope, e.revision): e
            for e in self.events
        }
        for key, verdict in self.oracle.announcements.items():
            if verdict == "accepted":
                name = self.world.name(UUID(key[0]))
                self.oracle.must(key in stored, f"an accepted event of {name} is lost: {key[2:]}")
        for key, event in stored.items():
            job = self.jobs[self.tasks[event.producer_task_id].job_id]
            if job.operator not in _CONTROL:
                verdict = self.oracle.announcements.get(key, "never sent")
                name = self._name(event.producer_task_id)
                known = verdict in ("accepted", "unknown")
                self.oracle.must(known, f"a stale event of {name} was recorded: {verdict}")

    def _attempts(self, task: Any, attempts: list[Any]) -> None:
        job, name = self.jobs[task.job_id], self._name(task.task_id)
        must = self.oracle.must
        numbers = [row.attempt for row in attempts]
        must(numbers == list(range(1, len(numbers) + 1)), f"{name} has attempts {numbers}")
        outcomes = [row.outcome for row in attempts]
        must(outcomes.count("Completed") <= 1, f"{name} completed twice")
        for row in attempts:
            began = row.started_at is not None or row.outcome in ("Lapsed", "Canceled")
            must(began, f"{name}: attempt {row.attempt} ended and never began")
        if job.activation == "source":
            must(not any(row.final for row in attempts), f"the source {name} has ended")
            return
        finals = [row for row in attempts if row.final]
        must(len(finals) == 1, f"{name} ended {len(finals)} times")
        failures = sum(outcome in _FAILURES for outcome in outcomes)
        least, most = self.oracle.attempts_allowed(job)
        # Once more for each time that somebody wanted it, or that its version came back.
        revived = sum(row.error_code == "VersionReplaced" and not row.final for row in attempts)
        allowed = most * (1 + self.oracle.retries.get(str(task.task_id), 0) + revived)
        must(failures <= allowed, f"{name} failed {failures} times, {allowed} allowed")
        if finals[0].outcome in ("TimedOut", "LeaseExpired", "Lapsed"):
            must(failures >= least, f"{name} was given up after {failures} failures")

    def _outcomes(self) -> None:
        """Whoever was told an outcome was told the truth."""
        for (task, attempt, token), (_, status) in self.oracle.accepted.items():
            if status == "Yielded":
                continue
            rows = [r for r in self.attempts[UUID(task)] if r.attempt == attempt]
            same = any(str(r.lease_token) == token and r.outcome == status for r in rows)
            stored = [r.outcome for r in rows]
            name = self.world.name(UUID(task))
            self.oracle.must(same, f"{name}/{attempt} was answered {status}, stored is {stored}")

    def _outputs(self) -> None:
        reported = {key[:2] for key in self.oracle.accepted} | {k[:2] for k in self.oracle.unknown}
        for row in self.world.state.look("all_outputs"):
            known = (str(row.task_id), row.attempt) in reported
            self.oracle.must(known, f"stale outputs of {self._name(row.task_id)}/{row.attempt}")

    def _states(self) -> None:
        stored = {(row.job_id, row.key): row.value for row in self.world.state.look("all_state")}
        for task, values in self.oracle.source_states.all():
            value = stored.get((self.tasks[task].job_id, "at"))
            name = self._name(task)
            self.oracle.must(value in values, f"the state of {name} is {value}, not {values[-1]}")

    def _requests(self) -> None:
        for org, numbers in self.oracle.requests.items():
            asks = [j for j in self.jobs.values() if j.org_id == org and j.name == "ask"]
            ask = next(job for job in asks if self.reflected.is_active(job))
            served = {e.revision for e in self.events if e.dataset_version == ask.versions[0]}
            self.oracle.must(numbers <= served, f"requests {sorted(numbers - served)} are lost")

    # Control jobs, computed again ----------------------------------------------------------------

    def _completed(self, job: JobFacts) -> list[Any]:
        return [
            task
            for task in self.tasks.values()
            if task.job_id == job.job_id
            and any(row.outcome == "Completed" for row in self.attempts[task.task_id])
        ]

    def _announced_by(self, job: JobFacts) -> list[Any]:
        return [e for e in self.events if e.dataset_version == job.versions[0]]

    def _split(self, job: JobFacts) -> None:
        expected = set()
        for task in self._completed(job):
            start = task.range_start
            while start <= task.range_end:
                size = job.config["chunk_size"]
                last = min(task.range_end, start // size * size + size - 1)
                expected.add((task.task_id, Scope.of_range(start, last).key, task.revision))
                start = last + 1
        found = {(e.producer_task_id, e.scope, e.revision) for e in self._announced_by(job)}
        self.oracle.must(found == expected, f"{job.name} announced other chunks")

    def _aggregated(self, job: JobFacts) -> None:
        size = job.config["range_size"]
        present: dict[int, set[int]] = defaultdict(set)
        revisions: dict[int, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        for task in self._completed(job):
            for cursor in range(task.range_start, task.range_end + 1):
                present[cursor // size].add(cursor)
                latest = revisions[cursor // size]
                latest[task.dataset_version] = max(latest[task.dataset_version], task.revision)
        sums = {index: sum(each.values()) for index, each in revisions.items()}
        expected = {
            Scope.of_range(index * size, index * size + size - 1).key: sums[index]
            for index, cursors in present.items()
            if len(cursors) == size
        }
        found: dict[str, int] = {}
        for event in self._announced_by(job):
            found[event.scope] = max(found.get(event.scope, 0), event.revision)
        self.oracle.must(found == expected, f"{job.name} announced {found}, not {expected}")
