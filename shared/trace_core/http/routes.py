"""Every route of every API, with the one kind of principal that may call it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trace_core.http.principal import Kind


class Surface(StrEnum):
    """The APIs; each has a gateway, or locally a port, of its own."""

    USER = "user_api"
    INTERNAL = "internal_api"
    TASK = "task_api"


@dataclass(frozen=True)
class Route:
    surface: Surface
    method: str
    path: str
    kind: Kind
    waits: bool = False
    """The caller chooses how long it takes, so its latency says nothing about us."""


ROUTES = (
    Route(Surface.INTERNAL, "POST", "/internal/task-claim", Kind.WORKER),
    Route(Surface.INTERNAL, "GET", "/internal/task-fetch", Kind.WORKER),
    Route(Surface.INTERNAL, "GET", "/internal/wake-ups", Kind.WORKER, waits=True),
    Route(Surface.INTERNAL, "POST", "/internal/heartbeat", Kind.WORKER),
    Route(Surface.INTERNAL, "POST", "/internal/events", Kind.WORKER),
    Route(Surface.INTERNAL, "POST", "/internal/task-complete", Kind.WORKER),
    Route(Surface.INTERNAL, "GET", "/internal/jwks/task", Kind.NOBODY),
    Route(Surface.TASK, "POST", "/v1/task/start", Kind.START),
    Route(Surface.TASK, "POST", "/v1/task/heartbeat", Kind.TASK),
    Route(Surface.TASK, "POST", "/v1/task/events", Kind.TASK),
    Route(Surface.TASK, "POST", "/v1/task/complete", Kind.TASK),
    Route(Surface.USER, "GET", "/v1/status", Kind.USER),
    Route(Surface.USER, "GET", "/v1/dags", Kind.USER),
    Route(Surface.USER, "POST", "/v1/dags", Kind.USER),
    Route(Surface.USER, "POST", "/v1/dags/<dag>/pause", Kind.USER),
    Route(Surface.USER, "POST", "/v1/dags/<dag>/resume", Kind.USER),
    Route(Surface.USER, "POST", "/v1/dags/<dag>/jobs/<job>/trigger", Kind.USER),
    Route(Surface.USER, "GET", "/v1/tasks", Kind.USER),
    Route(Surface.USER, "GET", "/v1/tasks/<task_id>", Kind.USER),
    Route(Surface.USER, "GET", "/v1/tasks/<task_id>/logs", Kind.USER),
    Route(Surface.USER, "POST", "/v1/tasks/<task_id>/cancel", Kind.USER),
    Route(Surface.USER, "POST", "/v1/tasks/<task_id>/retry", Kind.USER),
    Route(Surface.USER, "GET", "/v1/outbox", Kind.USER),
    Route(Surface.USER, "POST", "/v1/outbox/reset", Kind.USER),
    Route(Surface.USER, "GET", "/v1/queues", Kind.USER),
    Route(Surface.USER, "POST", "/v1/queues/<runtime>/redrive", Kind.USER),
    Route(Surface.USER, "GET", "/v1/quotas", Kind.USER),
    Route(Surface.USER, "POST", "/v1/quotas", Kind.USER),
    Route(Surface.USER, "POST", "/v1/quotas/clear", Kind.USER),
)


def route(surface: Surface, method: str, path: str) -> Route:
    """The declared route; one that the table does not have fails when its handler is imported."""
    for each in ROUTES:
        if (each.surface, each.method, each.path) == (surface, method, path):
            return each
    raise LookupError(f"{method} {path} is not declared for {surface}")
