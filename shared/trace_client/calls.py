"""One call: a request, patience where it is safe, and the answer as a model."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from trace_client.errors import ApiError
from trace_client.transport import Transport
from trace_core.kernel.errors import Unavailable
from trace_core.worker.connections import HttpReply

Model = TypeVar("Model", bound=BaseModel)
_REPEATABLE = ("GET", "PUT")
"""May be sent again when nobody knows whether the first one did its work."""
_WAIT_UNSAID = 1.0


def part(name: object) -> str:
    """A name as one part of a path, whatever it is."""
    return quote(str(name), safe="") or "-"


class Calls:
    """What every method of the client does.

    Too many requests (429) are waited for as the answer says; a platform that is away (503) only
    for requests that may be repeated. Both for `patience` seconds in all.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        patience: float = 65.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = transport
        self._patience = patience
        self._sleep = sleep

    def _call(
        self,
        model: type[Model],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Model:
        reply = self._send(method, path, query, body, headers)
        try:
            # A newer platform may answer more than this client knows.
            return model.model_validate_json(reply.body, extra="ignore")
        except ValidationError as error:
            raise Unavailable("The answer is not one of Trace's: is the address right?") from error

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> HttpReply:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        address = f"{path}?{urlencode(given)}" if given else path
        data = b"" if body is None else json.dumps(body).encode()
        said = {"Content-Type": "application/json", **(headers or {})}
        left = self._patience
        while True:
            reply = self._transport.send(method, address, data, said)
            if reply.status < 300:
                return reply
            wait = _wait(method, reply)
            if wait is None or wait > left:
                raise ApiError(reply.status, _details(reply))
            left -= wait
            self._sleep(wait)


def _wait(method: str, reply: HttpReply) -> float | None:
    """How long until another try makes sense; None when none does."""
    if reply.status != 429 and (reply.status != 503 or method not in _REPEATABLE):
        return None
    said = reply.headers.get("retry-after", "")
    return max(_WAIT_UNSAID, float(said)) if said.isdecimal() else _WAIT_UNSAID


def _details(reply: HttpReply) -> dict[str, Any]:
    """Of the answer's error; of none when something else than Trace answered."""
    try:
        found = json.loads(reply.body)["error"]
    except (ValueError, TypeError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}
