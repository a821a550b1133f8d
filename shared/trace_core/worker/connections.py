"""HTTP/1.1 connections that are kept between calls and shared by threads."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from trace_core.kernel.errors import Rejected, Unavailable

_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class HttpReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class HttpConnections:
    """To one address. Redirects are answers like others: nothing is followed."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Rejected(f"not an http address: {url}")
        self._https = parts.scheme == "https"
        self.host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> HttpReply:
        """Raises `Unavailable` when there is no answer."""
        connection, kept = self._take()
        try:
            try:
                reply = self._exchange(connection, method, path, data, headers)
            except _STALE:
                # The server may have closed a kept connection; a new one tells for sure.
                if not kept:
                    raise
                connection.close()
                reply = self._exchange(connection, method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unavailable(f"{self.host}: {type(error).__name__}: {error}") from error
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return reply

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes,
        headers: Mapping[str, str],
    ) -> HttpReply:
        connection.request(method, self._prefix + path, data, dict(headers))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return HttpReply(response.status, found, response.read())

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        make = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        return make(self.host, self._port, timeout=self._timeout), False
