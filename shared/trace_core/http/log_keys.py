"""Log lines about tasks: each names org, job, task and attempt.

A request names the task and often the attempt. The job is looked up only when there is a line to
write, since most requests write none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from trace_core.kernel.ids import OrgId
from trace_core.tasks.api import Fenced, StartRequest
from trace_core.tasks.names import TaskName, TaskNames
from trace_core.telemetry import Telemetry

SHOWN = 20
"""Of a list of tasks, so many are named."""


def name_reports(
    telemetry: Telemetry, names: TaskNames, org_id: OrgId, reports: Sequence[Fenced]
) -> None:
    """Requests that carry a fence; a list of several has lists for keys."""
    shown = reports[:SHOWN]
    telemetry.keys(
        task=_one_or_all([str(each.task_id) for each in shown]),
        attempt=_one_or_all([str(each.attempt) for each in shown]),
    )
    ids = [each.task_id for each in shown]
    telemetry.when_logged(lambda: {"job": _jobs(names.of_tasks(org_id, ids), ids)})


def name_tasks(
    telemetry: Telemetry, names: TaskNames, org_id: OrgId, task_ids: Sequence[UUID]
) -> None:
    """Requests that know the task alone."""
    ids = task_ids[:SHOWN]
    telemetry.keys(task=_one_or_all([str(each) for each in ids]))
    telemetry.when_logged(_finder(lambda: names.of_tasks(org_id, ids), ids))


def name_start(telemetry: Telemetry, names: TaskNames, request: StartRequest) -> None:
    """The org of a start token is known by the token alone."""
    ids = [request.task_id]
    telemetry.keys(task=request.task_id)

    def find() -> dict[str, object]:
        found = names.of_start(request.task_id, request.start_token)
        org = {"org": str(found[0].org_id)} if found else {}
        return {**org, **_finder(lambda: found, ids)()}

    telemetry.when_logged(find)


def _finder(
    find: Callable[[], Sequence[TaskName]], ids: Sequence[UUID]
) -> Callable[[], dict[str, object]]:
    def named() -> dict[str, object]:
        found = find()
        attempts: dict[UUID, str] = {each.task_id: str(each.attempt) for each in found}
        return {
            "job": _jobs(found, ids),
            "attempt": _one_or_all([attempts.get(each) for each in ids]),
        }

    return named


def _jobs(found: Sequence[TaskName], ids: Sequence[UUID]) -> object:
    jobs: dict[UUID, str] = {each.task_id: each.job for each in found}
    return _one_or_all([jobs.get(each) for each in ids])


def _one_or_all(values: Sequence[str | None]) -> object:
    """What the org does not have has no name: nothing, or an empty place in a list."""
    return values[0] if len(values) == 1 else [each or "" for each in values]
