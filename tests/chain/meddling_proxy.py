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
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                proxy._meddle()
                node = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                node.request("POST", "/", body, {"Content-Type": "application/json"})
                answer = node.getresponse()
                data = answer.read()
                node.close()
                self.send_response(answer.status)
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

    def _meddle(self) -> None:
        # One at a time: what the hook does to the chain is done before anybody reads on.
        with self._lock:
            self._requests += 1
            self._before(self._requests)


def _nothing(_: int) -> None:
    pass
