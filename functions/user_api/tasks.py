"""Tasks with their attempts and logs, and events."""

from __future__ import annotations

from uuid import UUID

from functions.user_api.api import Call, api, telemetry
from trace_core.http import log_keys, pages, user_calls
from trace_core.http import work_answers as answers
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import TaskId
from trace_core.tasks.event_views import EventFilter


@api.route("GET", "/v1/tasks")
def tasks(call: Call) -> answers.TaskPage:
    query = call.query(user_calls.TasksQuery)
    found = call.app.views.tasks(
        call.principal.org_id,
        dag=query.dag,
        job=query.job,
        status=query.status,
        limit=query.limit + 1,
        before=pages.after_id(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: UUID(int=row["task_id"].int))
    return answers.TaskPage(tasks=rows, next=following)


@api.route("GET", "/v1/tasks/<task_id>")
def task(call: Call) -> answers.TaskDetail:
    return answers.TaskDetail(**call.app.views.task(call.principal.org_id, _task_id(call)))


@api.route("GET", "/v1/tasks/<task_id>/attempts")
def attempts(call: Call) -> answers.AttemptPage:
    query = call.query(pages.PageQuery)
    found = call.app.views.attempts(
        call.principal.org_id,
        _task_id(call),
        limit=query.limit + 1,
        after=pages.after_number(query.cursor),
    )
    rows, following = pages.cut(found, query.limit, lambda row: int(row["attempt"]))
    return answers.AttemptPage(attempts=rows, next=following)


@api.route("GET", "/v1/tasks/<task_id>/logs")
def logs(call: Call) -> answers.Logs:
    org_id, task_id = call.principal.org_id, _task_id(call)
    if not call.app.views.exists(org_id, task_id):
        raise NotFound(task_id=str(task_id))
    return answers.Logs(logs=user_calls.logs_of(call.app.objects, org_id, task_id))


@api.route("POST", "/v1/tasks/<task_id>/cancel")
def cancel(call: Call) -> answers.TaskState:
    task_id = _task_id(call)
    done = call.app.task_admin.cancel(call.principal.org_id, task_id, call.actor)
    return answers.TaskState(task_id=task_id, status=done)


@api.route("POST", "/v1/tasks/<task_id>/retry")
def retry(call: Call) -> answers.TaskState:
    task_id = _task_id(call)
    done = call.app.task_admin.retry(call.principal.org_id, task_id, call.actor)
    return answers.TaskState(task_id=task_id, status=done)


@api.route("GET", "/v1/events")
def events(call: Call) -> answers.EventPage:
    query = call.query(user_calls.EventsQuery)
    found = call.app.event_views.events(
        call.principal.org_id,
        EventFilter(query.dag, query.job, query.task, query.scope),
        limit=query.limit,
        before=pages.after_id(query.cursor),
    )
    following = pages.encode(str(found.before)) if found.before else None
    return answers.EventPage(events=found.events, next=following)


def _task_id(call: Call) -> TaskId:
    task_id = user_calls.task_id(call.path["task_id"])
    log_keys.name_tasks(telemetry, call.app.task_names, call.principal.org_id, [task_id])
    return task_id
