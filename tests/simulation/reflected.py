"""Whether every accepted event is reflected once in what is current, and in nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.database import JobFacts

if TYPE_CHECKING:
    from tests.simulation.world import World

Made = tuple[UUID, UUID]
"""An event and a job."""


class Reflected:
    def __init__(
        self,
        world: World,
        tasks: dict[UUID, Any],
        events: list[Any],
        attempts: dict[UUID, list[Any]],
    ) -> None:
        self._world, self._must = world, world.oracle.must
        self._jobs, self._tasks, self._attempts = world.jobs, tasks, attempts
        self._events = {event.event_id: event for event in events}
        look = world.state.look
        self._together: dict[UUID, set[UUID]] = defaultdict(set)
        """Job -> those that are in some version with it."""
        members: dict[UUID, set[UUID]] = defaultdict(set)
        self._active: set[UUID] = set()
        for row in look("version_jobs"):
            members[row.dag_version_id].add(row.job_id)
            if row.active:
                self._active.add(row.job_id)
        for jobs in members.values():
            for job in jobs:
                self._together[job] |= jobs
        self._producers = {row.dataset_version: row for row in look("producers")}
        self._current = {row.dataset_uuid: row.dataset_version for row in look("pointers")}
        self._made: dict[Made, list[Any]] = defaultdict(list)
        for task in tasks.values():
            if task.event_id is not None:
                self._made[task.event_id, task.job_id].append(task)
        self._by_version: dict[UUID, list[Any]] = defaultdict(list)
        for event in events:
            self._by_version[event.dataset_version].append(event)

    def is_active(self, job: JobFacts) -> bool:
        return job.job_id in self._active

    def check(self) -> None:
        self._tasks_have_events()
        for job in self._jobs.values():
            if job.org_id in self._world.orgs and self.is_active(job):
                self._reflects(job)
        self._nothing_is_left()
        self._pins()
        self._numbers()

    def _tasks_have_events(self) -> None:
        """Each task is that of one event, which its job reads in a version that they share."""
        fields = ("producer_task_id", "dataset_version", "scope", "revision", "range_start")
        for (event_id, job_id), tasks in self._made.items():
            job, event = self._jobs[job_id], self._events.get(event_id)
            name = f"{self._world.name(tasks[0].task_id)} ({job.name})"
            self._must(event is not None, f"{name} is of no event")
            assert event is not None
            what = f"event {event.scope!r} r{event.revision} made {len(tasks)} tasks of {job.name}"
            self._must(len(tasks) == 1, what)
            same = all(getattr(tasks[0], field) == getattr(event, field) for field in fields)
            self._must(same, f"{name} has another trigger")
            producer = self._producers[event.dataset_version]
            read = producer.dataset_uuid in job.triggers
            self._must(read, f"{name} is of an event that triggers it not")
            together = producer.job_id in self._together[job_id]
            self._must(together, f"{name} is of an event of another version")

    def _reflects(self, job: JobFacts) -> None:
        for dataset in job.triggers:
            version = self._current[dataset]
            pin = self._world.versions.pins.get((str(job.job_id), str(version)), 0)
            events = self._by_version[version]
            last: dict[str, int] = defaultdict(int)
            for event in events:
                if event.number <= pin:
                    last[event.scope] = max(last[event.scope], event.number)
            for event in events:
                tasks = self._made.get((event.event_id, job.job_id), [])
                what = f"event {event.scope!r} r{event.revision} number {event.number}"
                # A build takes the last event of each scope that was there when it began.
                covered = event.number <= pin and event.number < last[event.scope]
                self._must(bool(tasks) or covered, f"{what} made 0 tasks of {job.name}")
                if tasks:
                    self._ended_well(tasks[0], job)

    def _ended_well(self, task: Any, job: JobFacts) -> None:
        """Completed, or failed or canceled as somebody wanted it."""
        finals = [row for row in self._attempts.get(task.task_id, []) if row.final]
        name = f"{self._world.name(task.task_id)} ({job.name})"
        self._must(len(finals) == 1, f"{name} of the active version has not ended")
        replaced = finals[0].outcome == "Canceled" and finals[0].error_code == "VersionReplaced"
        self._must(not replaced, f"{name} ended with a version that is active again")

    def _nothing_is_left(self) -> None:
        look = self._world.state.look
        for row in look("open_retired"):
            self._must(False, f"{self._world.name(row.task_id)} of retired {row.name} is open")
        for row in look("all_gaps"):
            active = row.job_id in self._active
            self._must(not active, f"{row.name} is active and still has a gap")
        for row in look("all_deploys"):
            what = f"deploy {row.number} of {row.dag} has not ended: {row.status}"
            self._must(row.ended_at is not None and row.status in ("Done", "Canceled"), what)

    def _pins(self) -> None:
        """What was read belongs to a version that the reader is in."""
        for row in self._world.state.look("all_inputs"):
            producer = self._producers[row.dataset_version].job_id
            right = producer in self._together[row.job_id]
            job, name = self._jobs[row.job_id].name, self._world.name(row.task_id)
            self._must(right, f"{name} of {job} has read another version's data")

    def _numbers(self) -> None:
        for events in self._by_version.values():
            counted = Counter(event.number for event in events)
            twice = [number for number, count in counted.items() if count > 1]
            self._must(not twice, f"numbers {twice} were given twice")
