"""Answers CloudFormation, which hands a function a URL and waits there for how it went."""

from __future__ import annotations

import functools
import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from trace_core.kernel.errors import TraceError, Unavailable

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
_REASON_MAX = 1000
_TIMEOUT = 30.0


def answered(handler: Handler) -> Handler:
    """Answer whatever happens: without an answer CloudFormation waits until it gives up.

    A failure is also raised again, so that it is logged and counted like any other.
    """

    @functools.wraps(handler)
    def run(event: dict[str, Any], context: Any) -> dict[str, Any]:
        try:
            data = handler(event, context)
        except Exception as error:
            _answer(event, "FAILED", reason=_reason(error))
            raise
        _answer(event, "SUCCESS", data=data)
        return data

    return run


def _reason(error: Exception) -> str:
    """Only our own words: those of others may quote SQL or a password."""
    if isinstance(error, TraceError):
        return f"{error.code}: {error.message}"[:_REASON_MAX]
    return f"{type(error).__name__}: see the log of the function."


def _answer(
    event: Mapping[str, Any],
    status: str,
    *,
    reason: str = "",
    data: Mapping[str, Any] | None = None,
) -> None:
    body = {
        "Status": status,
        "Reason": reason,
        # The same id for ever: another one would make CloudFormation delete the former resource.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {name: json.dumps(value) for name, value in (data or {}).items()},
    }
    _put(event["ResponseURL"], json.dumps(body).encode())


def _put(url: str, body: bytes) -> None:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT)
    try:
        # Its signature covers an empty content type.
        path = f"{parts.path}?{parts.query}"
        connection.request("PUT", path, body, {"Content-Type": ""})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable("CloudFormation could not be answered.") from error
    finally:
        connection.close()
    if status >= 300:
        raise Unavailable(f"CloudFormation did not take the answer (status {status}).")
