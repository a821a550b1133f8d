"""Stands between clients and the emulator, and lets a service fail the way services do."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}


class FaultProxy:
    """One HTTP server on loopback. Without a fault every request passes unchanged."""

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint).netloc
        self._fault: _Fault = _Fault()
        self.passed = 0
        self.failed = 0
        self.repeated = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Connections are cut without an answer."""
        with self._during(_Fault(cut=True)):
            yield

    @contextmanager
    def throttled(self, share: float, seed: int = 1) -> Iterator[None]:
        """That share of the requests is told to slow down."""
        with self._during(_Fault(throttle=share, chance=random.Random(seed))):  # noqa: S311
            yield

    @contextmanager
    def unruly(self, *, repeat: float, delay_seconds: float, seed: int = 1) -> Iterator[None]:
        """Sends arrive twice with that chance, and each after a random delay: out of order."""
        fault = _Fault(repeat=repeat, delay=delay_seconds, chance=random.Random(seed))  # noqa: S311
        with self._during(fault):
            yield

    @contextmanager
    def _during(self, fault: _Fault) -> Iterator[None]:
        before, self._fault = self._fault, fault
        try:
            yield
        finally:
            self._fault = before

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        fault = self._fault
        if fault.cut:
            self.failed += 1
            handler.close_connection = True
            return
        if fault.chance.random() < fault.throttle:
            self.failed += 1
            self._answer(
                handler,
                400,
                {"content-type": "application/x-amz-json-1.0"},
                b'{"__type":"com.amazonaws.sqs#RequestThrottled","message":"slow down"}',
            )
            return
        is_send = "SendMessage" in handler.headers.get("x-amz-target", "")
        if is_send and fault.delay:
            time.sleep(fault.chance.random() * fault.delay)
        if is_send and fault.chance.random() < fault.repeat:
            self._forward(handler, body)
            self.repeated += 1
        status, headers, answer = self._forward(handler, body)
        self.passed += 1
        self._answer(handler, status, headers, answer)

    def _forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            headers = {k: v for k, v in handler.headers.items() if k.lower() not in _HOP_BY_HOP}
            connection.request(handler.command, handler.path, body, headers)
            answer = connection.getresponse()
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP}
            if handler.command == "HEAD":
                kept["content-length"] = answer.getheader("content-length") or "0"
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    @staticmethod
    def _answer(
        handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if "content-length" not in headers:
            handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)


class _Fault:
    def __init__(
        self,
        *,
        cut: bool = False,
        throttle: float = 0.0,
        repeat: float = 0.0,
        delay: float = 0.0,
        chance: Any = None,
    ) -> None:
        self.cut = cut
        self.throttle = throttle
        self.repeat = repeat
        self.delay = delay
        self.chance = chance or random.Random(1)  # noqa: S311
