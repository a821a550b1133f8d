"""The task API: what operator code may call with the capability token of its one attempt."""

from __future__ import annotations

from typing import Any

from trace_core import bootstrap
from trace_core.http import log_keys, task_calls
from trace_core.http.api import Api, Request
from trace_core.http.routes import Surface
from trace_core.tasks.api import (
    Completion,
    EventsRequest,
    Fenced,
    HeartbeatRequest,
    InputRequest,
    LogRequest,
    StartRequest,
)
from trace_core.telemetry import Telemetry

telemetry = Telemetry("task_api")
api = Api(Surface.TASK, bootstrap.app, telemetry)
Call = Request[bootstrap.App]


@api.route("POST", "/v1/task/start")
def start(call: Call) -> object:
    request = call.parse(StartRequest)
    log_keys.name_start(telemetry, call.app.task_names, request)
    return task_calls.start(call.app, request)


@api.route("POST", "/v1/task/heartbeat")
def heartbeat(call: Call) -> object:
    request = call.parse(HeartbeatRequest)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    return task_calls.heartbeat(call.app, call.principal.org_id, request)


@api.route("POST", "/v1/task/events")
def events(call: Call) -> object:
    request = call.parse(EventsRequest)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    return task_calls.accept(call.app, call.principal.org_id, request)


@api.route("POST", "/v1/task/inputs")
def inputs(call: Call) -> object:
    request = call.parse(InputRequest)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    return task_calls.resolve_input(call.app, call.principal.org_id, request)


@api.route("POST", "/v1/task/complete")
def complete(call: Call) -> object:
    request = call.parse(Completion)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    answer = task_calls.complete(call.app, call.principal.org_id, request)
    telemetry.count("AttemptsFailed", task_calls.number_failed(answer))
    return answer


@api.route("POST", "/v1/task/logs")
def logs(call: Call) -> object:
    request = call.parse(LogRequest)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    task_calls.keep_log(call.app, call.principal.org_id, request)
    return {"kept": True}


@api.route("POST", "/v1/task/credentials")
def credentials(call: Call) -> object:
    request = call.parse(Fenced)
    task_calls.require_own_task(call.principal, request)
    _name(call, request)
    return task_calls.credentials(call.app, call.principal)


def _name(call: Call, request: Fenced) -> None:
    log_keys.name_reports(telemetry, call.app.task_names, call.principal.org_id, [request])


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)
