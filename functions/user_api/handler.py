"""The user API: what people do, from the command line or a console."""

from __future__ import annotations

from typing import Any

from functions.user_api import (
    credentials,
    dags,
    datasets,
    deploys,
    members,
    operations,
    tasks,
)
from functions.user_api.api import Call, api, telemetry
from trace_core.http import openapi

__all__ = [
    "api",
    "credentials",
    "dags",
    "datasets",
    "deploys",
    "handler",
    "members",
    "operations",
    "tasks",
]


@api.route("GET", "/v1/openapi.json")
def document(_call: Call) -> dict[str, Any]:
    return openapi.document()


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)
