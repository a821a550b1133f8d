"""HTTP/1.1 on loopback, as little of it as a client of the gateway needs: POST, with a length."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

logger = logging.getLogger(__name__)
_HEAD_MAX = 16 * 1024
_HEADERS_MAX = 64
_IDLE_SECONDS = 120.0
_PAUSE_SECONDS = 0.05
_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
            411: "Length Required", 413: "Content Too Large", 429: "Too Many Requests",
            502: "Bad Gateway", 504: "Gateway Timeout"}  # fmt: skip


@dataclass(frozen=True)
class Call:
    path: str
    headers: Mapping[str, str]
    body: bytes
    gone: Callable[[], bool]
    """Whether the client has hung up."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
    """The request is not one that the gateway takes."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Stream(Protocol):
    """What is read of a connection."""

    def readline(self, limit: int = -1, /) -> bytes: ...

    def read(self, size: int = -1, /) -> bytes: ...


class LoopbackServer:
    """A thread for each connection; clients keep few of them alive."""

    def __init__(
        self, answer: Callable[[Call], Reply], refusal: Callable[[Refused], Reply],
        body_max: Callable[[str], int],
    ) -> None:  # fmt: skip
        self._answer, self._refusal, self._body_max = answer, refusal, body_max
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="trace-egress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections = list(self._open)
        for each in (self._listening, *connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError as error:
                if self._closed:
                    return
                # Out of file descriptors, say. The operators of this worker have no other way out,
                # so it goes on when there are some again.
                logger.warning("the egress gateway takes no connection now: %s", error)
                time.sleep(_PAUSE_SECONDS)
                continue
            with self._lock:
                if self._closed:
                    connected.close()
                    return
                self._open.add(connected)
            thread = threading.Thread(
                target=self._serve, args=(connected,), name="trace-egress-call", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                logger.warning("the egress gateway has no thread for a connection now")
                self._end(connected)

    def _serve(self, connected: socket.socket) -> None:
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.settimeout(_IDLE_SECONDS)
            with connected.makefile("rb", 64 * 1024) as stream:
                while self._one(connected, stream):
                    pass
        except OSError:
            # The client is gone, or kept its connection without a word.
            pass
        except Exception:
            logger.exception("the egress gateway could not answer")
        finally:
            self._end(connected)

    def _end(self, connected: socket.socket) -> None:
        with self._lock:
            self._open.discard(connected)
        connected.close()

    def _one(self, connected: socket.socket, stream: Stream) -> bool:
        """One request; whether another may follow."""
        try:
            call, keep = self._read(connected, stream)
        except Refused as refused:
            # What follows cannot be told from a body that was not read.
            _write(connected, self._refusal(refused), keep=False)
            return False
        if call is None:
            return False
        try:
            reply = self._answer(call)
        except Refused as refused:
            reply = self._refusal(refused)
        _write(connected, reply, keep=keep)
        return keep

    def _read(self, connected: socket.socket, stream: Stream) -> tuple[Call | None, bool]:
        line = stream.readline(_HEAD_MAX)
        if not line:
            return None, False
        try:
            method, path, version = line.decode("ascii").split()
        except ValueError:
            raise Refused(400, "this is not HTTP") from None
        headers = _headers(stream)
        if method != "POST":
            raise Refused(405, "POST only")
        if version != "HTTP/1.1" or "transfer-encoding" in headers:
            raise Refused(411, "HTTP/1.1 with a Content-Length only")
        text = headers.get("content-length", "")
        if not (text.isascii() and text.isdigit()):
            raise Refused(411, "a Content-Length is needed")
        length, most = int(text[:15]), self._body_max(path)
        if length > most:
            raise Refused(413, f"the request has {length} bytes; {most} fit")
        if headers.get("expect", "").lower() == "100-continue":
            connected.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = stream.read(length)
        if len(body) < length:
            return None, False
        call = Call(path, headers, body, lambda: _hung_up(connected))
        return call, headers.get("connection", "").lower() != "close"


def _hung_up(connected: socket.socket) -> bool:
    waiting = select.poll()
    try:
        waiting.register(connected, select.POLLIN)
        # Without something to read it waits for its answer.
        return bool(waiting.poll(0)) and not connected.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True


def _headers(stream: Stream) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_HEADERS_MAX):
        line = stream.readline(_HEAD_MAX)
        if line in (b"\r\n", b"\n"):
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not line.endswith(b"\n"):
            break
        headers[name.strip().lower()] = value.strip()
    raise Refused(400, "its headers cannot be read")


def _write(connected: socket.socket, reply: Reply, *, keep: bool) -> None:
    lines = [f"HTTP/1.1 {reply.status} {_PHRASES.get(reply.status, 'Answer')}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    lines += [
        f"Content-Length: {len(reply.body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    connected.sendall(head + reply.body)
