"""Two tasks that write one scope, two attempts each: what may happen to them.

The services are the real ones, on the worker's side too. A crash is a process that is never asked
again. An answer that got lost is the same call once more, or an attempt that says it has failed.
`x/y` is x with y in the middle of it: on a second connection, at a named point of x.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from tests.simulation.commit_oracle import TASKS, Commit, History, Seen, problems
from tests.simulation.commit_services import COLUMNS, Services
from tests.simulation.kept_tables import Rows
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Superseded, Unavailable
from trace_core.kernel.ids import LeaseToken, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.operators import api as operators
from trace_core.storage.model import Backend
from trace_core.storage.rows import arrow_schema
from trace_core.tasks.api import Completion, EventIn, EventsRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.model import Fence
from trace_core.tasks.statements import SQL as TASK_SQL
from trace_core.worker import outcome as outcomes
from trace_core.worker.attempt import Attempt
from trace_core.worker.child import LeaseGone
from trace_core.worker.completions import Report, follow_up
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import AttemptRows

SCOPE = Scope(cursor=5)
_HALF = timedelta(seconds=6)
"""Twice that is longer than a lease."""
_BACKOFF = timedelta(seconds=2)
"""Longer than every backoff."""


@dataclass(frozen=True)
class Process:
    """One attempt as its worker holds it, alive or not."""

    task: str
    attempt: Attempt
    rows: AttemptRows
    pin: int
    stage: str = "claimed"
    outcome: Outcome | None = None
    """What it reports."""

    @property
    def name(self) -> str:
        return f"{self.task}{self.number}"

    @property
    def number(self) -> int:
        return self.attempt.attempt

    @property
    def value(self) -> str:
        """The row that it writes."""
        return f"{self.name}@{self.pin}"


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


class Wrong(AssertionError):
    """An action did what it must not."""


class SmallWorld:
    """A is there from the beginning; B is made when the input advances, and has newer pins."""

    def __init__(self, services: Services, limits: Limits) -> None:
        self._services = services
        self._limits = limits
        self._is_s3 = services.backend is Backend.S3
        self.problem: str | None = None
        self._tasks: dict[str, TaskId] = {}
        self._processes: dict[str, Process] = {}
        self._history = History()
        self._made: dict[str, Outcome] = {}
        self._pinned: dict[tuple[int, str], tuple[str, ...]] = {}
        (self._source,) = services.claims.claim(services.org, Runtime.WORKER, 1, "source")
        self._advance()
        self.now = self._keep()

    def actions(self) -> Iterator[str]:
        """What may happen now."""
        seen = self.now.seen
        if len(self._tasks) < len(TASKS):
            yield "advance"
        for task in self._tasks:
            if task in seen.waiting:
                yield f"claim_{task}"
            canceled = task in seen.leased and seen.leased[task]["canceled_at"] is not None
            if task in seen.leased and (task in self._limits.expires or canceled):
                yield f"expire_{task}"
            if task in self._limits.cancels and task not in seen.ended and not canceled:
                yield f"cancel_{task}"
        unmarked = any(row["registered_at"] is None for row in seen.records)
        if unmarked:
            yield "sweep"
        for process in list(self._processes.values()):
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
        elif process.stage in ("begun", "committed"):
            yield f"commit_{process.name}"
        if process.stage == "begun":
            if process.task in self._limits.loses:
                yield f"lose_{process.name}"
            for other in self._processes.values():
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
                point = _POINTS[outer.partition("_")[0]]
                with self._services.stepping_in(point, partial(self._step_in, inner)):
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
                "takeover": self._take_over,
            }  # fmt: skip
            of_task[verb](subject)
        elif verb == "report":
            self._report(self._processes[subject], alone=alone)
        else:
            of_process: dict[str, Callable[[Process], None]] = {
                "begin": self._begin, "commit": self._commit, "lose": self._lose,
                "write": self._write,
            }  # fmt: skip
            of_process[verb](self._processes[subject])

    def _step_in(self, action: str) -> None:
        """Whoever cannot have a lock comes back later: then it has not happened."""
        processes, history = dict(self._processes), self._history
        try:
            self._do(action, alone=False)
        except Unavailable:
            self._processes, self._history = processes, history

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
        (payload,) = services.payloads.build([claim])
        fence = {"attempt": claim.attempt, "lease_token": str(claim.lease_token)}
        attempt = Attempt.of({**fence, "task": payload})
        process = Process(
            task, attempt, AttemptRows(attempt, services.access()), claim.pins[0].number
        )
        self._processes[process.name] = process
        self._remember(claimed={**self._history.claimed, task: claim.attempt})

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

    def _sweep(self) -> None:
        found = self._services.sweep.run_once()
        if found.refused:
            raise Wrong("the sweep could not register a commit")

    # What attempts do -----------------------------------------------------------------------

    def _begin(self, process: Process) -> None:
        rows = copy.copy(process.rows)
        newer = self._history.begun.get(process.task, 0) > process.number
        try:
            found = rows.begin()
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} may not begin, and no newer attempt has") from None
            return
        if newer:
            raise Wrong(f"{process.name} begins after a newer attempt has")
        self._remember(begun={**self._history.begun, process.task: process.number})
        is_done = any(commit.task == process.task for commit in self._history.commits)
        if (found is not None) is not is_done:
            raise Wrong(f"{process.name} found {found}, and its task has committed: {is_done}")
        stage = "begun" if found is None else "found"
        self._processes[process.name] = replace(process, rows=rows, stage=stage, outcome=found)

    def _commit(self, process: Process) -> None:
        newer = self._history.begun[process.task] > process.number
        try:
            kept = process.rows.keep(self._rows_of(process), self._scratch(process))
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} is fenced, and no newer attempt has begun") from None
            return
        if kept.fields.get("error_code") == "Unavailable":
            raise Unavailable
        if kept.status == "Superseded":
            if not any(commit.pin > process.pin for commit in self._history.commits):
                raise Wrong(f"{process.name} is superseded by nobody")
            self._processes[process.name] = replace(process, stage="superseded", outcome=kept)
            return
        if kept.status != "Completed":
            raise Wrong(f"{process.name} could not commit: {kept.fields['error_message']}")
        self._committed(process, kept.fields["outputs"][0]["commit_number"], newer)
        self._processes[process.name] = replace(process, stage="committed", outcome=kept)

    def _committed(self, process: Process, number: int, newer: bool) -> None:
        if newer:
            raise Wrong(f"{process.name} has committed after a newer attempt began")
        commit = Commit(number, process.task, process.number, process.pin)
        if commit not in self._history.commits:
            self._remember(commits=(*self._history.commits, commit))

    def _lose(self, process: Process) -> None:
        """The data database commits, and the answer is lost: the attempt says that it failed."""

        def lost() -> None:
            raise Unavailable

        newer = self._history.begun[process.task] > process.number
        known = len(self._look().records)
        try:
            with self._services.stepping_in("data_commit:after_commit", lost):
                kept = process.rows.keep(self._rows_of(process), self._scratch(process))
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} is fenced, and no newer attempt has begun") from None
            return
        records = self._look().records
        if len(records) > known:
            self._committed(process, records[-1]["number"], newer)
        stage = "superseded" if kept.status == "Superseded" else "lost"
        self._processes[process.name] = replace(process, stage=stage, outcome=kept)

    def _write(self, process: Process) -> None:
        """The S3 layout: objects and their manifest, under the attempt's own prefix."""
        rows = copy.copy(process.rows)
        if rows.begin() is not None:
            raise Wrong("a record where none is kept")
        kept = rows.keep(self._rows_of(process), self._scratch(process))
        if kept.status != "Completed":
            raise Wrong(f"{process.name} could not write: {kept.fields['error_message']}")
        self._processes[process.name] = replace(process, rows=rows, stage="written", outcome=kept)

    def _report(self, process: Process, *, alone: bool) -> None:
        """As the worker does: until it is settled."""
        assert process.outcome is not None
        services, before = self._services, self.now.seen if alone else self._look()
        is_newest = self._history.claimed[process.task] == process.number
        following: Report | None = Report(process.attempt, process.outcome)
        answers = []
        while following is not None:
            last = following
            body = Completion.model_validate(last.body)
            (answer,) = services.completions.complete(services.org, [body])
            answers.append(answer)
            following = follow_up(last, answer.error)
        if len(answers) > 1:
            said = replace(process, stage=last.outcome.status.lower(), outcome=last.outcome)
            self._processes[process.name] = said
        is_newest = is_newest and self._history.claimed[process.task] == process.number
        after = self._look()
        if self._is_s3:
            self._see_commits(process, after, is_newest)
        if after.leased.get(process.task, {}).get("attempt") == process.number:
            raise Wrong(f"{process.name} is settled, and its lease is left to run out: {answers}")
        superseded = answers[0].status == "Superseded" or isinstance(answers[0].error, Superseded)
        if superseded and alone and process.task in before.leased and is_newest:
            if process.task not in after.waiting:
                raise Wrong(f"{process.name} was superseded, and is not queued again")
            if after.failures[process.task] != before.failures[process.task]:
                raise Wrong(f"{process.name} was superseded, and that counts as a failure")
        if alone and process.outcome.status == "Completed":
            self._judge_answer(process, answers[0], is_newest, before)
        if process.task in dict(after.of("delayed")):
            self._fall_due()

    def _judge_answer(self, process: Process, answer: Any, is_newest: bool, before: Seen) -> None:
        if answer.error is None and not is_newest:
            raise Wrong(f"a report of {process.name}, which is stale, came to {answer.status}")
        lease = before.leased.get(process.task, {})
        over = (lease.get("canceled_at"), before.ended.get(process.task) == "Canceled")
        if answer.error is not None and is_newest and not any(over):
            if not (self._is_s3 and isinstance(answer.error, Superseded)):
                raise Wrong(f"a report of {process.name} was refused: {answer.error.message}")

    def _see_commits(self, process: Process, after: Seen, is_newest: bool) -> None:
        known = {commit.number for commit in self._history.commits}
        for row in after.commits:
            if row["number"] not in known:
                self._committed(process, row["number"], not is_newest)

    def _rows_of(self, process: Process) -> Outcome:
        """What its operator leaves: one row that says who wrote it, and from which input."""
        if process.value not in self._made:
            folder = self._scratch(process)
            folder.mkdir()
            table = pa.table([[5], [process.value]], arrow_schema(COLUMNS))
            result = operators.Result(outputs=[operators.Rows(0, SCOPE, table)])
            self._made[process.value] = outcomes.succeeded(process.attempt.payload, result, folder)
        return self._made[process.value]

    def _scratch(self, process: Process) -> Any:
        return self._services.scratch / process.value

    # States ---------------------------------------------------------------------------------

    def _remember(self, **changes: Any) -> None:
        self._history = replace(self._history, **changes)

    def _look(self) -> Seen:
        services = self._services
        data = services.kept_data.keep() if services.kept_data is not None else {}
        names = {str(task_id): name for name, task_id in self._tasks.items()}
        tables = {**services.kept_state.keep(), **data}
        return Seen(tables, names, str(services.output[1]), self._is_s3)

    def look_at(self, kept: Kept) -> None:
        """As a state that is asked for its actions only."""
        self.now, self._tasks, self._processes = kept, dict(kept.tasks), dict(kept.processes)

    def _keep(self) -> Kept:
        seen = self._look()
        self._read_new_pins(seen)
        processes = sorted((e.name, e.stage, e.pin) for e in self._processes.values())
        return Kept(
            {name: seen.tables[name] for name in self._services.kept_state.names},
            {name: seen.tables[name] for name in seen.tables if name not in
             self._services.kept_state.names},
            dict(self._services.objects.held),
            self._services.clock.now(),
            dict(self._tasks),
            dict(self._processes),
            self._history,
            seen,
            f"{seen.key()}|{processes}|{list(self._tasks)}|{self._history}",
        )  # fmt: skip

    def put_back(self, kept: Kept) -> None:
        services = self._services
        services.kept_state.put_back(kept.state)
        if services.kept_data is not None:
            services.kept_data.put_back(kept.data)
        services.objects.held = dict(kept.objects)
        services.clock.advance(kept.at - services.clock.now())
        self._tasks, self._processes = dict(kept.tasks), dict(kept.processes)
        self._history, self.now, self.problem = kept.history, kept, None

    def _read_new_pins(self, seen: Seen) -> None:
        read = self._history.read
        for number in range(len(read), seen.readable + 1):
            read = (*read, self._rows_at(number, seen))
        self._remember(read=read)

    def _rows_at(self, number: int, seen: Seen) -> tuple[str, ...]:
        """By the pinned reader; the same tables give the same rows."""
        key = (number, seen.tables["commits" if self._is_s3 else "rows"])
        if key not in self._pinned:
            self._pinned[key] = self._services.rows_at(number)
        return self._pinned[key]

    def _problems(self, before: Kept) -> Iterator[str]:
        seen = self.now.seen
        yield from problems(before.seen, seen, self._history)
        written = {commit.number: commit.value for commit in self._history.commits}
        for number, first in enumerate(self._history.read):
            again = self._rows_at(number, seen)
            plain = again if self._is_s3 else seen.rows_at(number)
            expected = (written[number],) if number in written else ()
            if not first == again == plain == expected:
                yield f"pin {number} was {first}, is {again} and {plain}, wrote {expected}"


_POINTS = {
    "commit": "data_commit:output_written",
    "report": "complete_one:begin",
    "sweep": "reconcile:begin",
}
"""Where somebody steps in: rows are written and not committed; or what is reported or registered has
been looked at."""

