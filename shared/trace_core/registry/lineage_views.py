"""Lineage for people: as far upstream as the caller may read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.identity.model import Actor
from trace_core.kernel.ids import OrgId
from trace_core.kernel.scopes import RANGE_KEY, Scope
from trace_core.registry.lineage import (
    Lineage,
    LineageCommit,
    LineageInput,
    LineageReport,
    LineageTask,
)
from trace_core.registry.read_rights import ReadRights, reader

SQL = Statements("trace_core.registry", "read_rights.sql")


class LineageViews:
    def __init__(self, state: StateDatabase, rights: ReadRights) -> None:
        self._state = state
        self._rights = rights
        self._lineage = Lineage(state)

    def of(
        self,
        org_id: OrgId,
        dataset: str,
        actor: Actor,
        scope: str | None,
        *,
        depth: int,
        at: int | None = None,
    ) -> LineageReport:
        """What a task read of somebody else is named with its pin; what is behind it is not."""
        self._rights.find(org_id, dataset, actor)
        wanted = None if scope is None else scope_of(scope)
        found = self._lineage.of(org_id, dataset, wanted, depth=depth, at=at)
        seen = {each.pin.dataset_uuid for commit in found.commits for each in _inputs(commit.task)}
        params = {"org_id": org_id, "dataset_uuids": sorted(seen), **reader(actor)}
        rows = self._state.read(SQL["readable_outputs"], params)
        readable = {row.dataset_uuid for row in rows}
        commits = tuple(_commit(each, readable) for each in found.commits)
        return replace(found, commits=commits)


def scope_of(text: str) -> Scope:
    """As people write it: a cursor, a range or a partition key."""
    if text.isascii() and text.isdecimal():
        return Scope(cursor=int(text))
    bounds = RANGE_KEY.fullmatch(text)
    if bounds is not None and int(bounds[1]) <= int(bounds[2]):
        scope = Scope.of_range(int(bounds[1]), int(bounds[2]))
        if scope.partition_key == text:
            return scope
    # A month looks like a range, and is none.
    return Scope(partition_key=text)


def _inputs(task: LineageTask | None) -> Iterator[LineageInput]:
    """Of a task, and of all tasks behind it."""
    for each in task.inputs if task else ():
        yield each
        yield from _inputs(each.producer)
        for commit in each.commits:
            yield from _inputs(commit.task)


def _commit(commit: LineageCommit, readable: set[UUID]) -> LineageCommit:
    return replace(commit, task=_task(commit.task, readable))


def _task(task: LineageTask | None, readable: set[UUID]) -> LineageTask | None:
    if task is None:
        return None
    return replace(task, inputs=tuple(_input(each, readable) for each in task.inputs))


def _input(each: LineageInput, readable: set[UUID]) -> LineageInput:
    if each.pin.dataset_uuid not in readable:
        return replace(each, commits=(), producer=None)
    commits = tuple(_commit(commit, readable) for commit in each.commits)
    return replace(each, commits=commits, producer=_task(each.producer, readable))
