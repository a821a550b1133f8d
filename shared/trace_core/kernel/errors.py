"""Every error Trace raises on purpose, as one tree.

TraceError
├── Rejected            the caller's fault: 4xx, never retried
│   ├── Invalid             422  a field is missing, malformed or out of bounds
│   ├── TooLarge            413  the body is over its limit
│   ├── Unauthenticated     401  no valid token
│   ├── Forbidden           403  a valid token of the wrong kind, or without the right
│   ├── NotFound            404  no such thing inside the caller's org
│   └── RateLimited         429  too many requests in this minute: again after `Retry-After`
├── Conflict            the state moved on: 409, drop the work
│   ├── StaleAttempt        another attempt or lease is current
│   │   └── Fenced              and the data database says so
│   ├── Superseded          newer inputs are already in the output: again, with fresh pins
│   ├── OutcomeDiffers      the fence already completed, with another body
│   ├── TaskCanceled        the task was canceled while it ran
│   └── AlreadyDeployed     the DAG has a version with other content
├── Unavailable         a dependency is away: 503, retry with backoff
│   └── Busy                it is there, and has all it can hold: try again when it is free
└── Denied              a dependency refused us: 500, alarm; trying again will not help
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar


class TraceError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "Error"
    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        # The docstring is the default message, so that each error says one thing in one place.
        self.message = message or inspect.getdoc(type(self)) or self.code
        self.fields = fields
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """The JSON that a caller sees."""
        details = {name: value for name, value in self.fields.items() if value is not None}
        return {"error": {"code": self.code, "message": self.message, **details}}


class Rejected(TraceError):
    """The request was refused."""

    code = "Rejected"
    status = 400


class Invalid(Rejected):
    """The request does not have the expected form."""

    code = "Invalid"
    status = 422


class TooLarge(Rejected):
    """The request body is over the limit."""

    code = "TooLarge"
    status = 413


class Unauthenticated(Rejected):
    """A valid token is required."""

    code = "Unauthenticated"
    status = 401


class Forbidden(Rejected):
    """This token may not do that."""

    code = "Forbidden"
    status = 403


class NotFound(Rejected):
    """Nothing with that id is visible to this caller."""

    code = "NotFound"
    status = 404


class RateLimited(Rejected):
    """Too many requests in this minute; try again in the next one."""

    code = "RateLimited"
    status = 429


class Conflict(TraceError):
    """The state has moved on."""

    code = "Conflict"
    status = 409


class StaleAttempt(Conflict):
    """Another attempt or lease is current; this one may not change anything."""

    code = "StaleAttempt"


class Fenced(StaleAttempt):
    """A newer attempt or lease writes to the data database; this one may not."""

    code = "Fenced"


class Superseded(Conflict):
    """The scope already holds a commit made from a later pin; run again with fresh pins."""

    code = "Superseded"


class OutcomeDiffers(Conflict):
    """This attempt already completed with another body."""

    code = "OutcomeDiffers"


class TaskCanceled(Conflict):
    """The task was canceled; report it as Canceled."""

    code = "TaskCanceled"


class AlreadyDeployed(Conflict):
    """The DAG is deployed with other content."""

    code = "AlreadyDeployed"


class Unavailable(TraceError):
    """A service that this one needs does not answer; try again."""

    code = "Unavailable"
    status = 503


class Busy(Unavailable):
    """It has as much work as it can hold."""

    code = "Busy"


class Denied(TraceError):
    """A service that this one needs refused the call; trying again will not help."""

    code = "Denied"
    status = 500
