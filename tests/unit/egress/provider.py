"""A provider on loopback that a test can tell what to answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trace_core.egress.gateway import EgressGateway
from trace_core.egress.model import Upstream


@dataclass
class Provider:
    """Answers what is planned, one after the other, and then `{"ok":true}`."""

    url: str = ""
    plan: deque[tuple[int, dict[str, str], bytes, float]] = field(default_factory=deque)
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answers(
        self, status: int = 200, body: bytes = b'{"ok":true}', *, wait: float = 0.0, **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.plan.append((status, named, body, wait))


@contextmanager
def provider() -> Iterator[Provider]:
    state = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            state.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with state.lock:
                state.seen.append((self.path, dict(self.headers), body))
                state.at_once += 1
                state.most_at_once = max(state.most_at_once, state.at_once)
                planned = state.plan.popleft() if state.plan else (200, {}, b'{"ok":true}', 0.0)
            status, headers, answer, wait = planned
            time.sleep(wait)
            with state.lock:
                state.at_once -= 1
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            try:
                self.wfile.write(answer)
            except OSError:
                self.close_connection = True

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def upstream(at: Provider, **changes: Any) -> Upstream:
    limits = {"retry_seconds": 0.01, "timeout_seconds": 5, **changes.pop("limits", {})}
    return Upstream.model_validate(
        {"url": f"{at.url}/v2/{{key}}", "allow_private": True, "limits": limits, **changes}
    )


@contextmanager
def gateway(**upstreams: Upstream) -> Iterator[EgressGateway]:
    made = EgressGateway(upstreams, jitter=lambda: 0.5)
    try:
        yield made
    finally:
        made.close()
