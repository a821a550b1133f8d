"""Functions that tell the test what they were called with, and end when they may."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.localstack.functions import deployed
from tests.localstack_server import LocalStack

_SOURCE = """
    import json, os, urllib.request
    def handler(event, context):
        body = json.dumps(event).encode()
        urllib.request.urlopen(urllib.request.Request(os.environ["TELL"], body), timeout=30).read()
"""


class Recorder:
    """Hears the functions that it deploys; while held, none of their calls ends."""

    def __init__(self, localstack: LocalStack) -> None:
        self._localstack = localstack
        self._lock = threading.Lock()
        self._calls: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._gate = threading.Event()
        self._gate.set()
        self._stack = ExitStack()
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                recorder._heard(self.path.strip("/"), json.loads(body))
                self.send_response(204)
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def deploy(self, kind: str) -> str:
        """A function whose calls are recorded under that name."""
        variables = {"TELL": f"http://127.0.0.1:{self._server.server_address[1]}/{kind}"}
        function = deployed(self._localstack, _SOURCE, variables=variables)
        return self._stack.enter_context(function).name

    def calls(self, kind: str) -> list[Mapping[str, Any]]:
        with self._lock:
            return list(self._calls[kind])

    def hold(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def _heard(self, kind: str, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._calls[kind].append(event)
        self._gate.wait(20)

    def close(self) -> None:
        self.release()
        self._stack.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def recording(localstack: LocalStack) -> Iterator[Recorder]:
    recorder = Recorder(localstack)
    try:
        yield recorder
    finally:
        recorder.close()
