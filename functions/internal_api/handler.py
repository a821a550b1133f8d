"""The internal API: what the worker wrapper calls with its worker token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_core import bootstrap
from trace_core.http import log_keys, task_calls
from trace_core.http.api import Api, Request
from trace_core.http.routes import Surface
from trace_core.kernel.ids import TaskId
from trace_core.tasks.api import (
    ClaimRequest,
    CompleteBatch,
    Completion,
    EventsRequest,
    Fenced,
    HeartbeatRequest,
    InputRequest,
)
from trace_core.telemetry import Telemetry

telemetry = Telemetry("internal_api")
api = Api(Surface.INTERNAL, bootstrap.app, telemetry)
Call = Request[bootstrap.App]


@api.route("POST", "/internal/task-claim")
def claim(call: Call) -> object:
    request = call.parse(ClaimRequest)
    named = [request.task_id] if request.task_id else request.task_ids
    if named:
        log_keys.name_tasks(telemetry, call.app.task_names, call.principal.org_id, named)
    answer = task_calls.claim(call.app, call.principal.org_id, request)
    telemetry.count("TasksClaimed", task_calls.number_claimed(answer))
    return answer


@api.route("GET", "/internal/task-fetch")
def fetch(call: Call) -> object:
    task_id = TaskId(call.query(task_calls.FetchQuery).task_id)
    log_keys.name_tasks(telemetry, call.app.task_names, call.principal.org_id, [task_id])
    return call.app.payloads.fetch(call.principal.org_id, task_id)


@api.route("GET", "/internal/wake-ups")
def wake_ups(call: Call) -> object:
    query = call.query(task_calls.WakeUpsQuery)
    return task_calls.wake_ups(call.app.arrivals, call.principal.org_id, query)


@api.route("POST", "/internal/heartbeat")
def heartbeat(call: Call) -> object:
    request = call.parse(HeartbeatRequest)
    _name(call, [request])
    return task_calls.heartbeat(call.app, call.principal.org_id, request)


@api.route("POST", "/internal/task-inputs")
def inputs(call: Call) -> object:
    request = call.parse(InputRequest)
    _name(call, [request])
    return task_calls.resolve_input(call.app, call.principal.org_id, request)


@api.route("POST", "/internal/events")
def events(call: Call) -> object:
    request = call.parse(EventsRequest)
    _name(call, [request])
    return task_calls.accept(call.app, call.principal.org_id, request)


@api.route("POST", "/internal/task-complete")
def complete(call: Call) -> object:
    request = call.parse_one_or_many(Completion, CompleteBatch, "completions")
    _name(call, [request] if isinstance(request, Completion) else request.completions)
    answer = task_calls.complete(call.app, call.principal.org_id, request)
    telemetry.count("AttemptsFailed", task_calls.number_failed(answer))
    if (used := task_calls.egress_of(request)) is not None:
        telemetry.count("UpstreamRequests", used.requests)
        telemetry.count("UpstreamRateLimited", used.rate_limited)
        telemetry.count("UpstreamErrors", used.errors)
    return answer


@api.route("GET", "/internal/jwks/task")
def task_keys(call: Call) -> object:
    return call.app.signer.jwks()


def _name(call: Call, reports: Sequence[Fenced]) -> None:
    log_keys.name_reports(telemetry, call.app.task_names, call.principal.org_id, reports)


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)
