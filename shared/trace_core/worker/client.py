"""The task contract over HTTP: `/internal/*` for a worker, `/v1/task/*` for a task."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from trace_core.kernel import errors
from trace_core.kernel.backoff import delay
from trace_core.kernel.errors import Conflict, NotFound, Rejected, TraceError, Unavailable
from trace_core.worker.connections import HttpConnections

_BACKOFF_BASE = timedelta(milliseconds=100)
_BACKOFF_CAP = timedelta(seconds=10)
_CALL_PATIENCE = 15.0


class HttpClient:
    """JSON calls over kept connections, shared by threads.

    Connection errors and 5xx answers are tried again with backoff for `patience` seconds, which
    is safe because every call of the contract may be repeated.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 10.0) -> None:
        self._connections = HttpConnections(url, timeout=timeout)
        self._token = token

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        token: str | None = None,
        patience: float = _CALL_PATIENCE,
    ) -> dict[str, Any]:
        """Raises the kernel error that the answer names; `Unavailable` once patience ends."""
        return self._call("POST", path, json.dumps(body).encode(), token, patience)

    def get(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """As `post`, and without patience."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._call("GET", f"{path}?{urlencode(given)}", b"", None, 0)

    def _call(
        self, method: str, path: str, data: bytes, token: str | None, patience: float
    ) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if bearer := token or self._token:
            headers["Authorization"] = f"Bearer {bearer}"
        give_up_at = time.monotonic() + patience
        attempt = 0
        while True:
            try:
                return self._once(method, path, data, headers)
            except Unavailable:
                wait = delay(_BACKOFF_BASE, _BACKOFF_CAP, attempt, random.random).total_seconds()
                if time.monotonic() + wait >= give_up_at:
                    raise
                time.sleep(wait)
                attempt += 1

    def close(self) -> None:
        self._connections.close()

    def _once(
        self, method: str, path: str, data: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        reply = self._connections.send(method, path, data, headers)
        return _answer(reply.status, reply.body)


def _answer(status: int, text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text or b"{}")
    except ValueError as error:
        # Not our server: a proxy's page, say. What it means is up to the status alone.
        if status < 400:
            raise Unavailable(f"the answer is not JSON (status {status})") from error
        body = {}
    if status < 400 and isinstance(body, dict):
        return body
    raise error_of(body, status)


def error_of(body: Any, status: int = 500) -> TraceError:
    """The kernel error with that code; for an unknown code, the family that the status names."""
    details = body.get("error") if isinstance(body, dict) else None
    details = dict(details) if isinstance(details, dict) else {}
    code = details.pop("code", None)
    message = details.pop("message", None) or f"status {status}"
    for kind in _kinds(errors.TraceError):
        if kind.code == code:
            return kind(message, **_fields(details))
    family = Conflict if status == 409 else Rejected if 400 <= status < 500 else Unavailable
    return family(message, **_fields(details))


def _fields(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if name not in ("self", "message")}


def _kinds(kind: type[TraceError]) -> Iterator[type[TraceError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


class WorkerApi:
    """What a wrapper may do, with the worker token."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def claim(self, worker_id: str, queue: str, limit: int) -> list[dict[str, Any]]:
        """The claimed tasks, most urgent first; none when nothing may be claimed."""
        body = {"worker_id": worker_id, "queue": queue, "limit": limit}
        # No patience: the caller's loop asks again, and a lost answer is not claimed twice.
        answer = self._client.post("/internal/task-claim", body, patience=0)
        return [each for each in answer["claims"] if each["status"] == "Claimed"]

    def wake_ups(self, seen: int | None, wait_seconds: float) -> int | None:
        """A number that changes when there may be work; None where one has to poll for it."""
        query = {"seen": seen, "wait_seconds": wait_seconds}
        try:
            found = self._client.get("/internal/wake-ups", query)["seen"]
        except NotFound:
            # An older platform: there is no such route.
            return None
        return None if found is None else int(found)

    def heartbeat(self, fence: Mapping[str, Any]) -> str:
        return str(self._client.post("/internal/heartbeat", fence, patience=0)["status"])

    def inputs(self, fence: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What a running attempt reads, a page of it."""
        return self._client.post("/internal/task-inputs", {**fence, **wanted})

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> list[TraceError | None]:
        """One answer for each: None when accepted. Raises when the call as a whole failed."""
        if len(bodies) == 1:
            self._client.post("/internal/task-complete", bodies[0], patience=0)
            return [None]
        answer = self._client.post(
            "/internal/task-complete", {"completions": list(bodies)}, patience=0
        )
        results = {each["task_id"]: each for each in answer["results"]}
        return [_result(results.get(body["task_id"])) for body in bodies]


def _result(result: Mapping[str, Any] | None) -> TraceError | None:
    if result is None:
        return Unavailable("the answer does not name the task")
    return error_of(result, 409) if "error" in result else None


class TaskApi:
    """What a task may do, with its capability token."""

    def __init__(self, client: HttpClient, token: str | None = None) -> None:
        self._client = client
        self._token = token

    def with_token(self, token: str) -> TaskApi:
        return TaskApi(self._client, token)

    def start(self, task_id: str, start_token: str, runner_id: str) -> dict[str, Any]:
        body = {"task_id": task_id, "start_token": start_token, "runner_id": runner_id}
        return self._client.post("/v1/task/start", body)

    def heartbeat(self, fence: Mapping[str, Any]) -> str:
        answer = self._client.post("/v1/task/heartbeat", fence, token=self._token, patience=0)
        return str(answer["status"])

    def events(self, fence: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
        body = {**fence, "events": list(events)}
        self._client.post("/v1/task/events", body, token=self._token)

    def inputs(self, fence: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What this attempt reads, a page of it."""
        return self._client.post("/v1/task/inputs", {**fence, **wanted}, token=self._token)

    def log(self, fence: Mapping[str, Any], lease_sequence: int, data: bytes) -> None:
        body = {
            **fence,
            "lease_sequence": lease_sequence,
            # Whatever was printed, in a size that is known beforehand.
            "data": b64encode(data).decode(),
        }
        self._client.post("/v1/task/logs", body, token=self._token)

    def complete(self, bodies: Sequence[Mapping[str, Any]]) -> list[TraceError | None]:
        for body in bodies:
            self._client.post("/v1/task/complete", body, token=self._token, patience=0)
        return [None] * len(bodies)
