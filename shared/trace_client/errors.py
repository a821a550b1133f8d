"""What a client raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_core.kernel.errors import TraceError


class ApiError(TraceError):
    """The API refused the request."""

    def __init__(self, status: int, details: Mapping[str, Any]) -> None:
        message = details.get("message") or f"The API answered {status}."
        super().__init__(str(message))
        self.http_status = status
        self.details = dict(details)

    @property
    def error_code(self) -> str:
        """The stable code of the answer."""
        return str(self.details.get("code", "Unknown"))
