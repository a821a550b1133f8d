"""A proxy before a node, so that a test can do something between two requests of one slice."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Hook = Callable[[int], None]


class MeddlingProxy:
    """Calls `before` with the number of each request, counted from when it was set."""

    def __init__(self, port: int) -> None:
        self._before: Hook = _nothing
        self._requests = 0
        self._port = port
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, data = proxy._answer(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def before(self, hook: Hook | None) -> None:
        with self._lock:
            self._requests, self._before = 0, hook or _nothing

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, body: bytes) -> tuple[int, bytes]:
        # One at a time: nobody sees the node in the middle of what a hook does to it, also not
        # beside a request that was sent ahead by somebody who gave up meanwhile.
        with self._lock:
            self._requests += 1
            self._before(self._requests)
            node = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                node.request("POST", "/", body, {"Content-Type": "application/json"})
                answer = node.getresponse()
                return answer.status, answer.read()
            finally:
                node.close()


def _nothing(_: int) -> None:
    pass
