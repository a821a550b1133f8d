"""Two tasks that write one scope, two attempts each: what may happen to them.

The services are the real ones, on the worker's side too. A crash is a process that is never asked
again. An answer that got lost is the same call once more, or an attempt that says it has failed.
`x/y` is x with y in the middle of it: on a second connection, at a named point of x.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import pyarrow.parquet as pq

from tests.simulation.commit_attempts import Attempts, Process, Wrong
from tests.simulation.commit_oracle import TASKS, History, Seen, problems
from tests.simulation.commit_services import Services
from tests.simulation.kept_tables import Rows
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import LeaseToken, TaskId
from trace_core.storage.model import Backend
from trace_core.tasks.api import EventIn, EventsRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.model import Fence
from trace_core.tasks.statements import SQL as TASK_SQL

_HALF = timedelta(seconds=6)
"""Twice that is longer than a lease."""
_BACKOFF = timedelta(seconds=2)
"""Longer than every backoff."""


@dataclass(frozen=True)
class Kept:
    """A state, ready to be put back."""

    state: Rows
    data: Rows
    objects: Mapping[str, bytes]
    at: datetime
    tasks: Mapping[str, TaskId]
    processes: Mapping[str, Process]
    history: History
    seen: Seen
    key: str


@dataclass(frozen=True)
class Limits:
    """Which tasks the bad things happen to: all of them to both take days."""

    expires: str = "AB"
    cancels: str = "AB"
    loses: str = "AB"
    retries: str = ""
    """By hand, once."""
    tasks: int = len(TASKS)


class SmallWorld:
    """A is there from the beginning; B is made when the input advances, and has newer pins."""

    def __init__(self, services: Services, limits: Limits) -> None:
        self._services = services
        self._limits = limits
        self._is_s3 = services.backend is Backend.S3
        self.problem: str | None = None
        self._tasks: dict[str, TaskId] = {}
        self._attempts = Attempts(services, self._look)
        self._pinned: dict[tuple[int, str], tuple[str, ...]] = {}
        (self._source,) = services.claims.claim(services.org, Runtime.WORKER, 1, "source")
        self._advance()
        self.now = self._keep()

    def actions(self) -> Iterator[str]:
        """What may happen now."""
        seen = self.now.seen
        if len(self._tasks) < self._limits.tasks:
            yield "advance"
        for task in self._tasks:
            if task in seen.waiting:
                yield f"claim_{task}"
            canceled = task in seen.leased and seen.leased[task]["canceled_at"] is not None
            if task in seen.leased and (task in self._limits.expires or canceled):
                yield f"expire_{task}"
            if task in self._limits.cancels and task not in seen.ended and not canceled:
                yield f"cancel_{task}"
            may_retry = task in self._limits.retries and task not in self._attempts.history.retried
            if may_retry and seen.ended.get(task, "Completed") != "Completed":
                yield f"retry_{task}"
        unmarked = any(row["registered_at"] is None for row in seen.records)
        if unmarked:
            yield "sweep"
            if len(seen.commits) < len(seen.records):
                yield "sweep/sweep"
        for process in list(self._attempts.processes.values()):
            yield from self._of_process(process)
            if process.outcome is not None:
                yield f"report_{process.name}"
                lease = seen.leased.get(process.task, {})
                if lease.get("attempt") == process.number and process.task in self._limits.expires:
                    yield f"report_{process.name}/takeover_{process.task}"
                if unmarked and process.stage in ("committed", "found"):
                    yield f"report_{process.name}/sweep"
                    yield f"sweep/report_{process.name}"

    def _of_process(self, process: Process) -> Iterator[str]:
        if self._is_s3 and process.stage in ("claimed", "written"):
            yield f"write_{process.name}"
        elif self._is_s3:
            return
        elif process.stage == "claimed":
            yield f"begin_{process.name}"
            for other in self._attempts.processes.values():
                if other.task == process.task and other.stage == "begun":
                    yield f"begin_{process.name}/commit_{other.name}"
        elif process.stage in ("begun", "committed"):
            yield f"commit_{process.name}"
        if process.stage == "begun":
            if process.task in self._limits.loses:
                yield f"lose_{process.name}"
            for other in self._attempts.processes.values():
                if other.task != process.task and other.stage == "begun":
                    yield f"commit_{process.name}/commit_{other.name}"
                if other.task == process.task and other.stage == "claimed":
                    yield f"commit_{process.name}/begin_{other.name}"

    def act(self, action: str) -> None:
        """Take it, and judge what it did: `problem` says what is wrong."""
        before = self.now
        self.problem = None
        outer, _, inner = action.partition("/")
        try:
            if inner:
                points = _POINTS[outer.partition("_")[0]]
                with self._services.stepping_in(points, partial(self._step_in, inner)):
                    self._do(outer, alone=False)
            else:
                self._do(outer)
        except Wrong as wrong:
            self.problem = str(wrong)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        self.now = self._keep()
        if self.problem is None:
            self.problem = next(self._problems(before), None)

    def _do(self, action: str, *, alone: bool = True) -> None:
        verb, _, subject = action.partition("_")
        if verb in ("advance", "sweep"):
            {"advance": self._advance, "sweep": self._sweep}[verb]()
        elif subject in self._tasks:
            of_task: dict[str, Callable[[str], None]] = {
                "claim": self._claim, "expire": self._expire, "cancel": self._cancel,
                "takeover": self._take_over, "retry": self._retry,
            }  # fmt: skip
            of_task[verb](subject)
        elif verb == "report":
            process = self._attempts.processes[subject]
            after = self._attempts.report(process, self.now.seen if alone else None)
            if process.task in dict(after.of("delayed")):
                self._fall_due()
        else:
            attempts = self._attempts
            of_process: dict[str, Callable[[Process], None]] = {
                "begin": attempts.begin, "commit": attempts.commit, "lose": attempts.lose,
                "write": attempts.write,
            }  # fmt: skip
            of_process[verb](attempts.processes[subject])

    def _step_in(self, action: str) -> None:
        """Whoever cannot have a lock comes back later: then it has not happened."""
        processes, history = dict(self._attempts.processes), self._attempts.history
        try:
            self._do(action, alone=False)
        except Unavailable:
            self._attempts.processes, self._attempts.history = processes, history

    # What the platform does -----------------------------------------------------------------

    def _advance(self) -> None:
        services, fence = self._services, self._source.fence
        dataset, version = services.input
        event = EventIn(
            dataset_uuid=dataset, dataset_version=version, cursor=5, revision=len(self._tasks)
        )
        services.acceptance.accept(
            services.org,
            EventsRequest(
                task_id=fence.task_id, attempt=fence.attempt, lease_token=fence.lease_token,
                events=[event],
            ),
        )  # fmt: skip
        made = [
            task
            for task in self._look().rows["tasks"]
            if task["dataset_version"] == str(version) and task["revision"] == event.revision
        ]
        self._tasks[TASKS[len(self._tasks)]] = TaskId(UUID(made[0]["task_id"]))

    def _claim(self, task: str) -> None:
        services = self._services
        (claim,) = services.claims.claim_ids(services.org, [self._tasks[task]], "worker")
        if not isinstance(claim, Claimed):
            raise Wrong(f"a waiting task is not claimed: {claim.reason}")
        self._attempts.add(task, claim)

    def _expire(self, task: str) -> None:
        """Its worker is silent for longer than a lease, the others are not; the retry falls due."""
        services = self._services
        services.clock.advance(_HALF)
        self._heartbeats(silent=task)
        services.clock.advance(_HALF)
        services.reaper.run_once()
        self._fall_due(silent=task)

    def _fall_due(self, silent: str = "") -> None:
        services = self._services
        services.clock.advance(_BACKOFF)
        given = {
            "now": services.clock.now(), "limit": 10, "outbox_series": services.ids.series(),
            "wake_fanout": 1,
        }  # fmt: skip
        services.state.write("move_due", TASK_SQL["move_due"], given)
        self._heartbeats(silent)

    def _heartbeats(self, silent: str) -> None:
        services = self._services
        for row in self._look().rows["leases"]:
            if row["canceled_at"] is None and row["task_id"] != str(self._tasks.get(silent)):
                token = LeaseToken(UUID(row["lease_token"]))
                fence = Fence(TaskId(UUID(row["task_id"])), row["attempt"], token)
                services.leases.heartbeat(services.org, fence)

    def _take_over(self, task: str) -> None:
        self._expire(task)
        if task in self._look().waiting:
            self._claim(task)

    def _cancel(self, task: str) -> None:
        self._services.admin.cancel(self._services.org, self._tasks[task], SYSTEM)

    def _retry(self, task: str) -> None:
        self._services.admin.retry(self._services.org, self._tasks[task], SYSTEM)
        self._attempts.remember(retried=self._attempts.history.retried + task)

    def _sweep(self) -> None:
        found = self._services.sweep.run_once()
        if found.refused:
            raise Wrong("the sweep could not register a commit")

    # States ---------------------------------------------------------------------------------

    def _look(self) -> Seen:
        services = self._services
        data = services.kept_data.keep() if services.kept_data is not None else {}
        names = {str(task_id): name for name, task_id in self._tasks.items()}
        tables = {**services.kept_state.keep(), **data}
        return Seen(tables, names, str(services.output[1]), self._is_s3)

    def _keep(self) -> Kept:
        services, attempts, seen = self._services, self._attempts, self._look()
        self._read_new_pins(seen)
        processes = sorted((e.name, e.stage, e.pin) for e in attempts.processes.values())
        of_state = services.kept_state.names
        return Kept(
            {name: text for name, text in seen.tables.items() if name in of_state},
            {name: text for name, text in seen.tables.items() if name not in of_state},
            dict(services.objects.held),
            services.clock.now(),
            dict(self._tasks),
            dict(attempts.processes),
            attempts.history,
            seen,
            f"{seen.key()}|{processes}|{list(self._tasks)}|{attempts.history}",
        )

    def put_back(self, kept: Kept) -> None:
        services = self._services
        services.kept_state.put_back(kept.state)
        if services.kept_data is not None:
            services.kept_data.put_back(kept.data)
        services.objects.held = dict(kept.objects)
        services.clock.advance(kept.at - services.clock.now())
        self._tasks, self._attempts.processes = dict(kept.tasks), dict(kept.processes)
        self._attempts.history, self.now, self.problem = kept.history, kept, None

    def _read_new_pins(self, seen: Seen) -> None:
        read = self._attempts.history.read
        for number in range(len(read), seen.readable + 1):
            read = (*read, self._rows_at(number, seen))
        self._attempts.remember(read=read)

    def _rows_at(self, number: int, seen: Seen) -> tuple[str, ...]:
        """By the pinned reader; the same tables give the same rows."""
        key = (number, seen.tables["commits" if self._is_s3 else "rows"])
        if key not in self._pinned:
            self._pinned[key] = self._services.rows_at(number)
        return self._pinned[key]

    def _problems(self, before: Kept) -> Iterator[str]:
        seen, history = self.now.seen, self._attempts.history
        yield from problems(before.seen, seen, history)
        written = {commit.number: commit.value for commit in history.commits}
        for number, first in enumerate(history.read):
            again = self._rows_at(number, seen)
            plain = self._in_objects(number, seen) if self._is_s3 else seen.rows_at(number)
            expected = (written[number],) if number in written else ()
            if not first == again == plain == expected:
                yield f"pin {number} was {first}, is {again} and {plain}, wrote {expected}"

    def _in_objects(self, pin: int, seen: Seen) -> tuple[str, ...]:
        """What the objects of a pin hold, read without any code of ours."""
        keys = [each["key"] for row in seen.commits_at(pin) for each in row["objects"]]
        tables = [pq.read_table(io.BytesIO(self._services.objects.held[key])) for key in keys]
        return tuple(value for table in tables for value in table.column("value").to_pylist())


_POINTS = {
    "begin": ["advance_fence:before_commit", "find_records:begin"],
    "commit": ["data_commit:output_written"],
    "report": ["complete_one:begin"],
    "sweep": ["reconcile:begin"],
}
"""Where somebody steps in: between the fence and the look for a record; when rows are written and
not committed; when what is reported has been verified, and what is registered has been read."""
