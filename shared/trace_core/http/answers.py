"""What a caller gets: JSON, with one table from error to status; never a traceback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic_core import to_json

from trace_core.kernel.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    Rejected,
    TooLarge,
    TraceError,
    Unauthenticated,
    Unavailable,
)

STATUS: tuple[tuple[type[TraceError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (TooLarge, 413),
    (Invalid, 422),
    (RateLimited, 429),
    (Conflict, 409),
    (Unavailable, 503),
)
"""The first family that fits decides; an error of no family here is ours, and a 500."""

Body = TypeVar("Body")
INTERNAL = {"error": {"code": "Internal", "message": "Something failed inside Trace."}}


@dataclass(frozen=True)
class Answer(Generic[Body]):
    """A body with a status other than 200, or with headers."""

    status: int
    body: Body
    headers: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return to_json(self.body, serialize_unknown=True).decode()


def status_of(error: BaseException) -> int:
    for family, status in STATUS:
        if isinstance(error, family):
            return status
    return error.status if isinstance(error, Rejected) else 500


def refusal(error: BaseException) -> Answer[dict[str, Any]]:
    """The answer to a caller whose request raised."""
    status = status_of(error)
    if status == 500 or not isinstance(error, TraceError):
        return Answer(500, INTERNAL)
    if status == 503:
        # Why a dependency is away is for our logs.
        return Answer(503, Unavailable().body(), {"Retry-After": "1"})
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(error.fields["retry_after_seconds"])
    return Answer(status, error.body(), headers)
