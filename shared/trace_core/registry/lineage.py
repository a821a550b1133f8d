"""Lineage: which commits a scope was made by, from which inputs, by which code, and so upstream.

The input that made a task is followed by the scope that made it. Of other inputs a task may have
read anything: they are named with their pin, and not followed. An input without rows is followed
through the task that announced it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import Backend, Pin

SQL = Statements("trace_core.registry", "lineage.sql")
DEPTH_MAX = 20
_COMMITS_MAX = 100
_NODES_MAX = 500


@dataclass(frozen=True)
class LineageInput:
    """One dataset that a task read."""

    alias: str | None
    dag: str
    job: str
    output_index: int
    pin: Pin
    scope: Scope | None
    """What made the task; None for an input that it only read."""
    commits: tuple[LineageCommit, ...] = ()
    producer: LineageTask | None = None
    """Of an input without rows: the task that announced the scope."""

    def fields(self) -> dict[str, Any]:
        return {
            "alias": self.alias,
            "dag": self.dag,
            "job": self.job,
            "output_index": self.output_index,
            **self.pin.fields(),
            "scope": None if self.scope is None else self.scope.fields(),
            "commits": [each.fields() for each in self.commits],
            "producer": self.producer.fields() if self.producer else None,
        }


@dataclass(frozen=True)
class LineageTask:
    """Who made it, by which code, from what."""

    task_id: UUID
    attempt: int | None
    dag: str
    job: str
    operator: str
    fingerprint: str
    config: dict[str, Any]
    invalidation: str | None
    """Why it ran, if something was declared invalid."""
    inputs: tuple[LineageInput, ...]

    def fields(self) -> dict[str, Any]:
        return {
            "task_id": str(self.task_id),
            "attempt": self.attempt,
            "dag": self.dag,
            "job": self.job,
            "operator": self.operator,
            "fingerprint": self.fingerprint,
            "config": self.config,
            "invalidation": self.invalidation,
            "inputs": [each.fields() for each in self.inputs],
        }


@dataclass(frozen=True)
class LineageCommit:
    dataset_version: UUID
    number: int
    scope: Scope
    replaced_at: int | None
    row_count: int | None
    bytes: int | None
    registered_at: datetime
    task: LineageTask | None
    """None for one whose history is gone."""

    def fields(self) -> dict[str, Any]:
        return {
            "dataset_version": str(self.dataset_version),
            "number": self.number,
            "scope": self.scope.fields(),
            "replaced_at": self.replaced_at,
            "row_count": self.row_count,
            "bytes": self.bytes,
            "registered_at": self.registered_at,
            "task": self.task.fields() if self.task else None,
        }


@dataclass(frozen=True)
class LineageReport:
    commits: tuple[LineageCommit, ...]
    truncated: bool
    """There is more than was looked at: ask for a smaller scope, or less depth."""

    def fields(self) -> dict[str, Any]:
        return {
            "commits": [each.fields() for each in self.commits],
            "truncated": self.truncated,
        }


@dataclass
class _Search:
    """What one question has cost so far."""

    org_id: OrgId
    nodes: int = 0
    truncated: bool = False
    tasks: dict[tuple[UUID, int | None, int], LineageTask | None] = field(default_factory=dict)

    def may_go_on(self) -> bool:
        self.nodes += 1
        self.truncated |= self.nodes > _NODES_MAX
        return self.nodes <= _NODES_MAX


class Lineage:
    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def of(
        self,
        org_id: OrgId,
        dataset: str,
        scope: Scope | None = None,
        *,
        depth: int = 3,
        at: int | None = None,
    ) -> LineageReport:
        """Of a published name, an output or a version; `at` an earlier commit than the last one.

        Depth 0 names the commits, their tasks and pins; each step more goes one job upstream.
        """
        search = _Search(org_id)
        versions = self._state.read(SQL["versions_named"], _named(org_id, dataset))
        if not versions:
            raise NotFound(dataset=dataset)
        commits: list[LineageCommit] = []
        for version in versions:
            number = version.readable if at is None else min(at, version.readable)
            commits += self._commits(
                search, version.dataset_version, number, scope, min(depth, DEPTH_MAX)
            )
        return LineageReport(tuple(commits), search.truncated)

    def _commits(
        self, search: _Search, version: UUID, number: int, scope: Scope | None, depth: int
    ) -> list[LineageCommit]:
        start, end = scope.range if scope is not None and scope.range else (None, None)
        rows = self._state.read(
            SQL["commits_at"],
            {
                "dataset_version": version,
                "number": number,
                "scope": None if scope is None else scope.key,
                "range_start": start,
                "range_end": end,
                "limit": _COMMITS_MAX + 1,
            },
        )
        search.truncated |= len(rows) > _COMMITS_MAX
        return [
            LineageCommit(
                version, row.number, Scope.parse(row.scope, row.range_start, row.range_end),
                row.replaced_at, row.row_count, row.bytes, row.registered_at,
                self._task(
                    search, row.task_id, row.attempt, depth,
                    [Pin.parse(each) for each in row.input_pins],
                ),
            )
            for row in rows[:_COMMITS_MAX]
            if search.may_go_on()
        ]  # fmt: skip

    def _task(
        self,
        search: _Search,
        task_id: UUID,
        attempt: int | None,
        depth: int,
        pins: Sequence[Pin] | None = None,
    ) -> LineageTask | None:
        """Without an attempt, the one that completed."""
        key = (task_id, attempt, depth)
        if key not in search.tasks:
            search.tasks[key] = self._read_task(search, task_id, attempt, depth, pins)
        return search.tasks[key]

    def _read_task(
        self,
        search: _Search,
        task_id: UUID,
        attempt: int | None,
        depth: int,
        pins: Sequence[Pin] | None,
    ) -> LineageTask | None:
        params = {"org_id": search.org_id, "task_id": task_id}
        rows = self._state.read(SQL["task_of_lineage"], params)
        if not rows:
            return None
        task = rows[0]
        attempt = attempt or task.completed_attempt
        if pins is None:
            pins = [
                Pin(row.dataset_uuid, row.dataset_version, row.number, row.swap)
                for row in self._state.read(SQL["pins_of_attempt"], params | {"attempt": attempt})
            ]
        return LineageTask(
            task.task_id, attempt, task.dag, task.job, task.operator, task.fingerprint,
            task.config or {}, task.invalidation, self._inputs(search, task, pins, depth),
        )  # fmt: skip

    def _inputs(
        self, search: _Search, task: Row, pins: Sequence[Pin], depth: int
    ) -> tuple[LineageInput, ...]:
        if not pins:
            return ()
        named = {
            row.dataset_version: row
            for row in self._state.read(
                SQL["input_datasets"],
                {
                    "job_id": task.job_id,
                    "versions": Uuids([pin.dataset_version for pin in pins]),
                },
            )
        }
        found = []
        for pin in pins:
            of = named[pin.dataset_version]
            scope, commits, producer = None, [], None
            if pin.dataset_uuid == task.trigger_dataset:
                scope = Scope.parse(task.scope, task.range_start, task.range_end)
                if depth > 0 and of.backend == Backend.CONTROL:
                    if search.may_go_on():
                        producer = self._task(search, task.producer_task_id, None, depth - 1)
                elif depth > 0:
                    commits = self._commits(
                        search, pin.dataset_version, pin.number, scope, depth - 1
                    )
            found.append(
                LineageInput(
                    of.alias, of.dag, of.job, of.output_index, pin, scope, tuple(commits), producer
                )
            )
        return tuple(found)


def _named(org_id: OrgId, dataset: str) -> dict[str, Any]:
    try:
        named = UUID(dataset)
    except ValueError:
        named = None
    return {"org_id": org_id, "name": dataset, "id": named}
