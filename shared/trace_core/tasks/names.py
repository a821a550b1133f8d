"""The names of tasks for people and logs: whose they are, of which job, at which attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.tasks.statements import SQL


@dataclass(frozen=True)
class TaskName:
    org_id: OrgId
    task_id: TaskId
    job: str
    """With its DAG: `dag.job`."""
    attempt: int
    """The one that runs, or that ended last; 0 before the first."""


class TaskNames:
    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def of_tasks(self, org_id: OrgId, task_ids: Sequence[UUID]) -> list[TaskName]:
        """Those that the org has."""
        params = {"org_id": org_id, "task_ids": list(task_ids)}
        return [TaskName(*row) for row in self._state.read(SQL["names_of_tasks"], params)]

    def of_start(self, task_id: UUID, start_token: UUID) -> list[TaskName]:
        """The task that a runner may start with this token, if there is one."""
        params = {"task_id": task_id, "start_token": start_token}
        return [TaskName(*row) for row in self._state.read(SQL["name_of_start"], params)]
