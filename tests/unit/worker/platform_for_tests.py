"""A small real HTTP server that plays the task contract, and stand-ins for the ports."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trace_core.kernel.errors import Conflict, NotFound, StaleAttempt, TraceError, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.object_store import ObjectInfo
from trace_core.ports.queue import Message, QueueDepth
from trace_core.ports.secret_store import Namespace
from trace_core.tasks.api import (
    ClaimRequest,
    CompleteBatch,
    Completion,
    EventsRequest,
    HeartbeatRequest,
    LogRequest,
    StartRequest,
)

WORKER_TOKEN = "trw_" + "worker-token-never-in-a-child".ljust(43, "x")
CAPABILITY_TOKEN = "capability-token"


class Platform:
    """Claims come from `waiting`; everything that is reported is checked and kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[dict[str, Any]] = []
        self.reserved: dict[str, dict[str, Any]] = {}
        self.runners: dict[str, str] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.completed: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.beats: defaultdict[str, int] = defaultdict(int)
        self.logs: dict[str, str] = {}
        self.canceled: set[str] = set()
        self.stale: set[str] = set()
        self.outages: defaultdict[str, list[TraceError | str]] = defaultdict(list)
        """For a path, what the next calls answer instead; "drop" closes the connection."""
        self.settled = threading.Condition(self.lock)

    def answer(self, path: str, token: str, body: dict[str, Any]) -> dict[str, Any]:
        expected = WORKER_TOKEN if path.startswith("/internal/") else CAPABILITY_TOKEN
        if path != "/v1/task/start" and token != f"Bearer {expected}":
            raise StaleAttempt(f"wrong token for {path}: {token}")
        with self.lock:
            self.calls.append((path, body))
            match path:
                case "/internal/task-claim":
                    return self._claim(ClaimRequest.model_validate(body))
                case "/internal/heartbeat" | "/v1/task/heartbeat":
                    HeartbeatRequest.model_validate(body)
                    self._current(body["task_id"])
                    self.beats[body["task_id"]] += 1
                    canceled = body["task_id"] in self.canceled
                    return {"status": "Canceled" if canceled else "Running"}
                case "/internal/events" | "/v1/task/events":
                    EventsRequest.model_validate(body)
                    self.events.extend(body["events"])
                    return {}
                case "/internal/task-complete" if "completions" in body:
                    CompleteBatch.model_validate(body)
                    return {"results": [self._result(each) for each in body["completions"]]}
                case "/internal/task-complete" | "/v1/task/complete":
                    return self._complete(body)
                case "/v1/task/logs":
                    sent = LogRequest.model_validate(body)
                    self.logs[body["task_id"]] = sent.data.decode()
                    return {"kept": True}
                case "/v1/task/start":
                    return self._start(StartRequest.model_validate(body))
        raise NotFound(path)

    def _claim(self, request: ClaimRequest) -> dict[str, Any]:
        taken, self.waiting = self.waiting[: request.limit], self.waiting[request.limit :]
        return {"claims": [_claimed(task) for task in taken]}

    def _start(self, request: StartRequest) -> dict[str, Any]:
        task_id = str(request.task_id)
        task = self.reserved.get(task_id)
        if task is None or task["start_token"] != str(request.start_token):
            return {"status": "NotClaimed", "reason": "NotFound"}
        if self.runners.setdefault(task_id, request.runner_id) != request.runner_id:
            return {"status": "NotClaimed", "reason": "AlreadyRunning"}
        return _claimed({**task, "capability_token": CAPABILITY_TOKEN})

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        completion = Completion.model_validate(body)
        self._current(body["task_id"])
        self.completed[body["task_id"]] = body
        self.settled.notify_all()
        return {"status": completion.status}

    def _result(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"task_id": body["task_id"], **self._complete(body)}
        except TraceError as error:
            return {"task_id": body["task_id"], **error.body()}

    def _current(self, task_id: str) -> None:
        if task_id in self.stale:
            raise StaleAttempt(task_id=task_id)

    def wait_for(self, *tasks: Mapping[str, Any], timeout: float = 10.0) -> list[dict[str, Any]]:
        """The completions of these tasks, once all have come."""
        ids = [task["task_id"] for task in tasks]
        with self.settled:
            done = self.settled.wait_for(lambda: set(ids) <= set(self.completed), timeout)
            assert done, f"completed are only {self.completed}"
            return [self.completed[each] for each in ids]


def _claimed(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "Claimed",
        "attempt": task["attempt"],
        "lease_token": task["lease_token"],
        "lease_expires_at": task["lease_expires_at"],
        "task": task,
    }


@contextmanager
def serve(platform: Platform, *, keep_alive: bool = True) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        # Head and body leave in two writes, which delayed acknowledgements make 40 ms slow.
        disable_nagle_algorithm = True
        protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            outage = platform.outages[self.path].pop(0) if platform.outages[self.path] else None
            if outage == "drop":
                self.close_connection = True
                return
            try:
                if isinstance(outage, TraceError):
                    raise outage
                token = self.headers.get("Authorization", "")
                status, answer = 200, platform.answer(self.path, token, body)
            except TraceError as error:
                status, answer = error.status, error.body()
            except ValueError as error:
                status = 422
                answer = {"error": {"code": "Invalid", "message": str(error)}}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read what was called, not a log."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class MemoryQueue:
    def __init__(self) -> None:
        self.messages: queue.Queue[Message] = queue.Queue()
        self.deleted: list[str] = []
        self.broken = False

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        for number, body in enumerate(bodies):
            self.messages.put(Message(body, f"{queue}-{number}", 1))

    def receive(
        self, queue_name: str, /, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        if self.broken:
            raise Unavailable("no queue")
        try:
            return [self.messages.get(timeout=wait.total_seconds())]
        except queue.Empty:
            return []

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        """Hints are not extended."""

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        self.deleted.extend(receipts)

    def depth(self, queue: str) -> QueueDepth:
        return QueueDepth(self.messages.qsize(), 0, 0)

    def redrive(self, queue: str, *, limit: int) -> int:
        return 0


class MemoryObjects:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.broken = False

    def create(self, key: str, data: bytes) -> ObjectInfo:
        if self.broken:
            raise Unavailable("no store")
        if key in self.objects:
            raise Conflict(key)
        self.objects[key] = data
        return ObjectInfo(key, len(data), "1")

    def replace(self, key: str, data: bytes, *, etag: str | None = None) -> ObjectInfo:
        self.objects[key] = data
        return ObjectInfo(key, len(data), "1")

    def read(self, key: str) -> bytes:
        return self.objects[key]

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.objects[key][start : start + length]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.objects[key]), "1")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (self.head(key) for key in sorted(self.objects) if key.startswith(prefix))

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def read_url(self, key: str, valid_for: timedelta) -> str:
        return f"memory:{key}"


class MemorySecrets:
    def __init__(self, **values: str) -> None:
        self.values = values

    def put(self, org_id: OrgId, namespace: Namespace, name: str, value: str) -> None:
        self.values[name] = value

    def get(self, org_id: OrgId, namespace: Namespace, name: str) -> str:
        assert namespace is Namespace.USER
        if name not in self.values:
            raise NotFound(f"no secret {name}")
        return self.values[name]

    def names(self, org_id: OrgId, namespace: Namespace) -> list[str]:
        return sorted(self.values)

    def delete(self, org_id: OrgId, namespace: Namespace, name: str) -> None:
        self.values.pop(name, None)


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def eventually(condition: Callable[[], Any], timeout: float = 10.0) -> Any:
    """What the condition gives, as soon as that is true."""
    give_up_at = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.01)
    return found
