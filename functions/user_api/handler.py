"""The user API: what people do, from the command line or a console."""

from __future__ import annotations

from typing import Any

from functions.user_api import credentials, members
from functions.user_api.api import Call, api, telemetry
from trace_core.http import identity_calls, log_keys, user_calls
from trace_core.http.answers import Answer
from trace_core.kernel.errors import Unauthenticated
from trace_core.kernel.ids import TaskId

__all__ = ["api", "credentials", "handler", "members"]


@api.route("GET", "/v1/status")
def status(call: Call) -> object:
    return call.app.views.status(call.principal.org_id)


@api.route("GET", "/v1/dags")
def dags(call: Call) -> object:
    return {"dags": call.app.views.dags(call.principal.org_id)}


@api.route("POST", "/v1/dags")
def deploy(call: Call) -> object:
    org_id, given = call.principal.org_id, call.parse(user_calls.DeployRequest)
    done = call.app.deploys.deploy(org_id, given.text, given.filename, call.actor)
    return Answer(201 if done.created else 200, done)


@api.route("POST", "/v1/dags/<dag>/pause")
def pause(call: Call) -> object:
    call.app.deploys.pause(call.principal.org_id, call.path["dag"], call.actor)
    return {"dag": call.path["dag"], "paused": True}


@api.route("POST", "/v1/dags/<dag>/resume")
def resume(call: Call) -> object:
    call.app.deploys.resume(call.principal.org_id, call.path["dag"], call.actor)
    return {"dag": call.path["dag"], "paused": False}


@api.route("POST", "/v1/dags/<dag>/jobs/<job>/trigger")
def trigger(call: Call) -> object:
    dag, job = call.path["dag"], call.path["job"]
    telemetry.keys(job=f"{dag}.{job}")
    request = call.parse(user_calls.TriggerRequest).request
    number = call.app.requests.trigger(call.principal.org_id, dag, job, request, call.actor)
    return Answer(202, {"dag": dag, "job": job, "number": number})


@api.route("PUT", "/v1/dags/<dag>/deploy-roles")
def deploy_roles(call: Call) -> object:
    dag, roles = call.path["dag"], call.parse(identity_calls.DeployRoles).roles
    call.app.deploys.set_deploy_roles(call.principal.org_id, dag, roles, call.actor)
    return {"dag": dag, "deploy_roles": sorted(set(roles))}


@api.route("POST", "/v1/hooks/<source_id>")
def receive(call: Call) -> object:
    grant = call.principal.source
    if grant is None:
        raise Unauthenticated
    done = call.app.requests.receive(grant, call.parse(identity_calls.HookBody).root)
    return Answer(200 if done.repeated else 202, {"number": done.number})


@api.route("GET", "/v1/tasks")
def tasks(call: Call) -> object:
    query = call.query(user_calls.TasksQuery)
    return {"tasks": call.app.views.tasks(call.principal.org_id, **dict(query))}


@api.route("GET", "/v1/tasks/<task_id>")
def task(call: Call) -> object:
    return call.app.views.task(call.principal.org_id, _task_id(call))


@api.route("GET", "/v1/tasks/<task_id>/logs")
def logs(call: Call) -> object:
    org_id, task_id = call.principal.org_id, _task_id(call)
    call.app.views.task(org_id, task_id)
    return {"logs": user_calls.logs_of(call.app.objects, org_id, task_id)}


@api.route("POST", "/v1/tasks/<task_id>/cancel")
def cancel(call: Call) -> object:
    task_id = _task_id(call)
    done = call.app.task_admin.cancel(call.principal.org_id, task_id, call.actor)
    return {"task_id": task_id, "status": done}


@api.route("POST", "/v1/tasks/<task_id>/retry")
def retry(call: Call) -> object:
    task_id = _task_id(call)
    done = call.app.task_admin.retry(call.principal.org_id, task_id, call.actor)
    return {"task_id": task_id, "status": done}


@api.route("GET", "/v1/outbox")
def outbox(call: Call) -> object:
    query = call.query(user_calls.OutboxQuery)
    return {"rows": call.app.outbox_admin.rows(call.principal.org_id, **dict(query))}


@api.route("POST", "/v1/outbox/reset")
def reset_outbox(call: Call) -> object:
    given = call.parse(user_calls.OutboxReset)
    return {"reset": call.app.outbox_admin.reset(call.principal.org_id, **dict(given))}


@api.route("GET", "/v1/queues")
def queues(call: Call) -> object:
    return {"queues": user_calls.queues_of(call.app.queue, call.principal.org_id)}


@api.route("POST", "/v1/queues/<runtime>/redrive")
def redrive(call: Call) -> object:
    name = user_calls.queue_of(call.path["runtime"], call.principal.org_id)
    limit = call.parse(user_calls.RedriveRequest).limit
    return {"queue": name, "moved": call.app.queue.redrive(name, limit=limit)}


@api.route("GET", "/v1/quotas")
def quotas(call: Call) -> object:
    return {"counters": call.app.quotas.counters(call.principal.org_id)}


@api.route("POST", "/v1/quotas")
def set_quota(call: Call) -> object:
    given = call.parse(user_calls.QuotaRequest)
    call.app.quotas.set_quota(call.principal.org_id, **dict(given))
    return given


@api.route("POST", "/v1/quotas/clear")
def clear_quota(call: Call) -> object:
    return {"cleared": call.app.quotas.clear_quota(call.principal.org_id)}


def _task_id(call: Call) -> TaskId:
    task_id = user_calls.task_id(call.path["task_id"])
    log_keys.name_tasks(telemetry, call.app.task_names, call.principal.org_id, [task_id])
    return task_id


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)
