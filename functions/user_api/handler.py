"""The user API: what people do, from the command line or a console."""

from __future__ import annotations

from typing import Any

from functions.user_api import credentials, dags, members, operations, tasks
from functions.user_api.api import api, telemetry

__all__ = ["api", "credentials", "dags", "handler", "members", "operations", "tasks"]


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)
