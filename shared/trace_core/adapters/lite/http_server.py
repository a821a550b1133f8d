"""A local HTTP server in front of a Lambda handler: loopback only, bounded in every direction.

Each request becomes the API Gateway event that the handler would get on AWS.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import itertools
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from trace_core.http.proxy_event import LocalContext, rest_event
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, Unavailable

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

HOST = "127.0.0.1"
HEAD_MAX = 32 * 1024
HEADERS_MAX = 100
CONNECTIONS_MAX = 64
IDLE_SECONDS = 60.0
READ_SECONDS = 10.0
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,12}")


class PortTaken(Conflict):
    """Another program listens on this port."""

    code = "PortTaken"


@dataclass(frozen=True)
class _Head:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    length: int


class _Refused(Exception):
    """A request that does not reach the handler; the connection is closed after the answer."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.body = f'{{"error":{{"code":"{code}"}}}}'.encode()


class LocalServer:
    """Serves one handler on one port; port 0 takes a free one."""

    def __init__(self, name: str, handler: Handler, port: int) -> None:
        self.name = name
        self._handler = handler
        self._numbers = itertools.count(1)
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        self._open: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._listener = _listen(name, port)
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        self._acceptor.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Take no new connection, let running requests end, and close."""
        self._stopping = True
        # A blocked accept does not see a close: shutdown wakes it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections, threads = list(self._open), list(self._threads)
        for connection in connections:
            # An idle connection reads an end; a running request may still write its answer.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        if self._acceptor.is_alive():
            self._acceptor.join(seconds)
        for thread in threads:
            thread.join(seconds)

    def _accept(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                continue
            if not self._free.acquire(blocking=False):
                _send(connection, 503, b'{"error":{"code":"Busy"}}', close=True)
                connection.close()
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection,), name=self.name, daemon=True
            )
            with self._lock:
                self._open.add(connection)
                self._threads.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = _Reader(connection)
            while not self._stopping and self._serve_one(connection, reader):
                pass
        except OSError:
            pass  # The caller went away; what was committed stays so, as on AWS.
        finally:
            connection.close()
            with self._lock:
                self._open.discard(connection)
                self._threads.discard(threading.current_thread())
            self._free.release()

    def _serve_one(self, connection: socket.socket, reader: _Reader) -> bool:
        """Answer one request; whether another may follow on the connection."""
        try:
            text = reader.head()
            if text is None:
                return False
            head = _parse(text)
            if head.headers.get("expect", "").lower() == "100-continue":
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = reader.body(head.length)
        except _Refused as refused:
            _send(connection, refused.status, refused.body, close=True)
            return False
        close = self._stopping or head.headers.get("connection", "").lower() == "close"
        status, headers, answer = self._call(head, body)
        _send(connection, status, answer, close=close, headers=headers)
        return not close

    def _call(self, head: _Head, body: bytes) -> tuple[int, dict[str, str], bytes]:
        request_id = f"{self.name}-{next(self._numbers)}"
        event = rest_event(
            head.method, head.path, query=head.query, headers=head.headers, body=body,
            request_id=request_id,
        )  # fmt: skip
        try:
            answer = self._handler(event, LocalContext(request_id, self.name))
        except Exception:
            # Logged by the function itself; API Gateway would say as little.
            return 500, {}, b'{"error":{"code":"Internal"}}'
        many: dict[str, list[str]] = answer.get("multiValueHeaders") or {}
        headers = {name: ", ".join(values) for name, values in many.items()}
        text = answer.get("body") or ""
        data = base64.b64decode(text) if answer.get("isBase64Encoded") else text.encode()
        return int(answer["statusCode"]), headers, data


class _Reader:
    """Reads requests from a connection, never more than their limits."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def head(self) -> str | None:
        """The request line and headers, or None when the caller has gone."""
        self._connection.settimeout(IDLE_SECONDS)
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_MAX:
                raise _Refused(431, "HeadersTooLarge")
            more = self._receive()
            if not more:
                return None
            self._connection.settimeout(READ_SECONDS)
            self._buffer += more
        if end > HEAD_MAX:
            raise _Refused(431, "HeadersTooLarge")
        text = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        return text

    def body(self, length: int) -> bytes:
        self._connection.settimeout(READ_SECONDS)
        while len(self._buffer) < length:
            more = self._receive()
            if not more:
                raise ConnectionError("the body ended early")
            self._buffer += more
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(65_536)
        except TimeoutError:
            return b""


def _parse(text: str) -> _Head:
    first, *lines = text.split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise _Refused(400, "BadRequest")
    method, target, version = parts
    if method not in _METHODS:
        raise _Refused(405, "MethodNotAllowed")
    if not target.startswith("/") or len(lines) > HEADERS_MAX:
        raise _Refused(400, "BadRequest")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name):
            raise _Refused(400, "BadRequest")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "transfer-encoding" in headers:
        raise _Refused(411, "LengthRequired")
    if version == "HTTP/1.0":
        headers["connection"] = "close"
    length = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(length):
        raise _Refused(400, "BadRequest")
    if int(length) > limits.REQUEST_BODY_MAX:
        raise _Refused(413, "TooLarge")
    path, _, query = target.partition("?")
    if query.count("&") >= HEADERS_MAX:
        raise _Refused(400, "BadRequest")
    return _Head(method, unquote(path, errors="replace"), query, headers, int(length))


def _send(
    connection: socket.socket,
    status: int,
    body: bytes,
    *,
    close: bool,
    headers: dict[str, str] | None = None,
) -> None:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if not headers:
        lines.append("Content-Type: application/json")
    lines += [f"Content-Length: {len(body)}", f"Connection: {'close' if close else 'keep-alive'}"]
    with contextlib.suppress(OSError):
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def _listen(name: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # After a restart the old connections linger; they must not block the port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"Port {port} ({name}) is in use by another program.") from error
        raise Unavailable(f"Port {port} ({name}) cannot be opened: {error.strerror}.") from error
    return listener
