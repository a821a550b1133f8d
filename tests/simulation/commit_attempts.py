"""What the attempts of a small world do, by the code of the worker, and what they must get."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.simulation.commit_oracle import Commit, History, Seen
from tests.simulation.commit_services import COLUMNS, Services
from trace_core.kernel.errors import Superseded, Unavailable
from trace_core.kernel.scopes import Scope
from trace_core.operators import api as operators
from trace_core.storage.model import Backend
from trace_core.storage.rows import arrow_schema
from trace_core.tasks.api import Completion
from trace_core.tasks.claim import Claimed
from trace_core.worker import outcome as outcomes
from trace_core.worker.attempt import Attempt
from trace_core.worker.child import LeaseGone
from trace_core.worker.completions import Report, follow_up
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import AttemptRows

SCOPE = Scope(cursor=5)


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


class Wrong(AssertionError):
    """An action did what it must not."""


class Attempts:
    """All that were ever claimed: each may go on at any time, however late it is."""

    def __init__(self, services: Services, look: Callable[[], Seen]) -> None:
        self._services = services
        self._look = look
        self._is_s3 = services.backend is Backend.S3
        self._made: dict[str, Outcome] = {}
        self.processes: dict[str, Process] = {}
        self.history = History()

    def remember(self, **changes: Any) -> None:
        self.history = replace(self.history, **changes)

    def add(self, task: str, claim: Claimed) -> None:
        (payload,) = self._services.payloads.build([claim])
        fence = {"attempt": claim.attempt, "lease_token": str(claim.lease_token)}
        attempt = Attempt.of({**fence, "task": payload})
        rows = AttemptRows(attempt, self._services.access())
        process = Process(task, attempt, rows, claim.pins[0].number)
        self.processes[process.name] = process
        self.remember(claimed={**self.history.claimed, task: claim.attempt})

    def begin(self, process: Process) -> None:
        rows = copy.copy(process.rows)
        known = self.history.begun
        newer = known.get(process.task, 0) > process.number
        if not newer:
            # Whoever steps in behind the fence finds it there.
            self.remember(begun={**known, process.task: process.number})
        try:
            found = rows.begin()
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} may not begin, and no newer attempt has") from None
            return
        if newer:
            raise Wrong(f"{process.name} begins after a newer attempt has")
        is_done = any(commit.task == process.task for commit in self.history.commits)
        if (found is not None) is not is_done:
            raise Wrong(f"{process.name} found {found}, and its task has committed: {is_done}")
        stage = "begun" if found is None else "found"
        self.processes[process.name] = replace(process, rows=rows, stage=stage, outcome=found)

    def commit(self, process: Process) -> None:
        newer = self.history.begun[process.task] > process.number
        try:
            kept = process.rows.keep(self._rows_of(process), self._scratch(process))
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} is fenced, and no newer attempt has begun") from None
            return
        if kept.fields.get("error_code") in ("Unavailable", "InUse"):
            raise Unavailable
        if kept.status == "Superseded":
            if not any(commit.pin > process.pin for commit in self.history.commits):
                raise Wrong(f"{process.name} is superseded by nobody")
            self.processes[process.name] = replace(process, stage="superseded", outcome=kept)
            return
        if kept.status != "Completed":
            raise Wrong(f"{process.name} could not commit: {kept.fields['error_message']}")
        self._committed(process, kept.fields["outputs"][0]["commit_number"], newer)
        self.processes[process.name] = replace(process, stage="committed", outcome=kept)

    def _committed(self, process: Process, number: int, newer: bool) -> None:
        if newer:
            raise Wrong(f"{process.name} has committed after a newer attempt began")
        commit = Commit(number, process.task, process.number, process.pin)
        if commit not in self.history.commits:
            self.remember(commits=(*self.history.commits, commit))

    def lose(self, process: Process) -> None:
        """The data database commits, and the answer is lost: the attempt says that it failed."""

        def lost() -> None:
            raise Unavailable

        newer = self.history.begun[process.task] > process.number
        known = len(self._look().records)
        try:
            with self._services.stepping_in(["data_commit:after_commit"], lost):
                kept = process.rows.keep(self._rows_of(process), self._scratch(process))
        except LeaseGone:
            if not newer:
                raise Wrong(f"{process.name} is fenced, and no newer attempt has begun") from None
            return
        records = self._look().records
        if len(records) > known:
            self._committed(process, records[-1]["number"], newer)
        stage = "superseded" if kept.status == "Superseded" else "lost"
        self.processes[process.name] = replace(process, stage=stage, outcome=kept)

    def write(self, process: Process) -> None:
        """The S3 layout: objects and their manifest, under the attempt's own prefix."""
        rows = copy.copy(process.rows)
        if rows.begin() is not None:
            raise Wrong("a record where none is kept")
        kept = rows.keep(self._rows_of(process), self._scratch(process))
        if kept.status != "Completed":
            raise Wrong(f"{process.name} could not write: {kept.fields['error_message']}")
        self.processes[process.name] = replace(process, rows=rows, stage="written", outcome=kept)

    def report(self, process: Process, before: Seen | None) -> Seen:
        """As the worker does: until it is settled. Answers what is there then.

        Without `before` somebody else steps in, and the answer may be another.
        """
        assert process.outcome is not None
        services = self._services
        is_newest = self.history.claimed[process.task] == process.number
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
            self.processes[process.name] = said
        is_newest = is_newest and self.history.claimed[process.task] == process.number
        after = self._look()
        if self._is_s3:
            self._see_commits(process, after, is_newest)
        if after.leased.get(process.task, {}).get("attempt") == process.number:
            raise Wrong(f"{process.name} is settled, and its lease is left to run out: {answers}")
        if before is not None:
            self._judge_superseded(process, answers[0], before, after)
            if process.outcome.status == "Completed":
                self._judge_answer(process, answers[0], is_newest, before)
        return after

    def _judge_superseded(self, process: Process, answer: Any, before: Seen, after: Seen) -> None:
        superseded = answer.status == "Superseded" or isinstance(answer.error, Superseded)
        lease = before.leased.get(process.task, {})
        if superseded and lease.get("attempt") == process.number:
            if process.task not in after.waiting:
                raise Wrong(f"{process.name} was superseded, and is not queued again")
            if after.failures[process.task] != before.failures[process.task]:
                raise Wrong(f"{process.name} was superseded, and that counts as a failure")

    def _judge_answer(self, process: Process, answer: Any, is_newest: bool, before: Seen) -> None:
        if answer.error is None and not is_newest:
            raise Wrong(f"a report of {process.name}, which is stale, came to {answer.status}")
        lease = before.leased.get(process.task, {})
        over = [lease.get("canceled_at")]
        over += [task == process.task and row["outcome"] == "Canceled"
                 for task, row in before.of("attempts")]  # fmt: skip
        superseded = self._is_s3 and isinstance(answer.error, Superseded)
        if answer.error is not None and is_newest and not any(over) and not superseded:
            raise Wrong(f"a report of {process.name} was refused: {answer.error.message}")

    def _see_commits(self, process: Process, after: Seen, is_newest: bool) -> None:
        known = {commit.number for commit in self.history.commits}
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

    def _scratch(self, process: Process) -> Path:
        return self._services.scratch / process.value
