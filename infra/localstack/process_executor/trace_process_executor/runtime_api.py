"""The Lambda Runtime API for one child: hands out invocations and takes their outcomes.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase

_PREFIX = "/2018-06-01/runtime"


@dataclass(frozen=True)
class Invocation:
    request_id: str
    function_arn: str
    trace_id: str
    payload: bytes
    deadline_ms: int


@dataclass(frozen=True)
class Outcome:
    """How an initialisation or an invocation ended."""

    payload: bytes
    is_error: bool
    note: str = ""
    """For the log, where the child wrote nothing about it."""


def failure(kind: str, message: str) -> Outcome:
    """An error that the sandbox reports, since the child no longer can."""
    body = {"errorType": kind, "errorMessage": message}
    return Outcome(json.dumps(body).encode(), is_error=True, note=f"{message}\n")


def exit_message(status: int) -> str:
    how = f"signal: {-status}" if status < 0 else f"exit status {status}"
    return f"Runtime exited with error: {how}"


class RuntimeApi:
    """Serves one child on a loopback port until `close`."""

    def __init__(self) -> None:
        self._was_ready = False
        self._ready: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._invocations: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[str, Outcome] | None] = queue.SimpleQueue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def wait_until_ready(self, seconds: float) -> Outcome | None:
        """None once the child asks for its first invocation, else why it never will."""
        try:
            return self._ready.get(timeout=seconds)
        except queue.Empty:
            return failure("Sandbox.Timedout", f"Init timed out after {seconds:.2f} seconds")

    def invoke(self, invocation: Invocation, seconds: float) -> Outcome | None:
        """What the child answered; None when it took too long, or is gone."""
        self._invocations.put(invocation)
        try:
            answer = self._outcomes.get(timeout=seconds)
        except queue.Empty:
            return None
        return answer[1] if answer is not None and answer[0] == invocation.request_id else None

    def child_is_gone(self, status: int) -> None:
        """Nobody will answer any more: tell whoever waits."""
        self._ready.put(failure("Runtime.ExitError", exit_message(status)))
        self._outcomes.put(None)

    def close(self) -> None:
        self._invocations.put(None)
        self._server.shutdown()
        self._server.server_close()

    def next_invocation(self) -> Invocation | None:
        if not self._was_ready:
            self._was_ready = True
            self._ready.put(None)
        return self._invocations.get()

    def init_failed(self, outcome: Outcome) -> None:
        self._ready.put(outcome)

    def answered(self, request_id: str, outcome: Outcome) -> None:
        self._outcomes.put((request_id, outcome))


def _handler(api: RuntimeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body go out at once; otherwise the second waits 40 ms for an acknowledgement.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path != f"{_PREFIX}/invocation/next":
                self.send_error(404)
                return
            invocation = api.next_invocation()
            if invocation is None:
                self.close_connection = True
                return
            self._answer(
                200,
                invocation.payload,
                {
                    "Content-Type": "application/json",
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                    "Lambda-Runtime-Trace-Id": invocation.trace_id,
                    "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                },
            )

        def do_POST(self) -> None:
            body = b"".join(_body(self.rfile, self.headers.get("Content-Length")))
            match self.path.removeprefix(f"{_PREFIX}/").split("/"):
                case ["init", "error"]:
                    api.init_failed(Outcome(body, is_error=True))
                case ["invocation", request_id, "response" | "error" as kind]:
                    api.answered(request_id, Outcome(body, is_error=kind == "error"))
                case _:
                    self.send_error(404)
                    return
            self._answer(202, b'{"status":"OK"}', {"Content-Type": "application/json"})

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Each call would be a line in LocalStack's log."""

    return Handler


def _body(stream: BufferedIOBase, length: str | None) -> Iterator[bytes]:
    """The request's bytes; without a length it came in chunks."""
    if length is not None:
        yield stream.read(int(length))
        return
    while size := int(stream.readline().split(b";")[0].strip() or b"0", 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()
