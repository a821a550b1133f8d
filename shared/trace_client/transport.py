"""How a client reaches the user API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from trace_core.kernel.errors import Invalid
from trace_core.worker.connections import HttpConnections, HttpReply

ORG_HEADER = "x-trace-org"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Transport(Protocol):
    def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> HttpReply:
        """Whatever is answered; raises `Unavailable` when nothing is."""
        ...


class HttpTransport:
    """Over HTTPS, or over HTTP on the same machine."""

    def __init__(
        self,
        url: str,
        token: Callable[[], str],
        org: str | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """`token` is asked once, at the first call."""
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise Invalid(f"{url} is not https: a token would be readable on its way.")
        self._connections = HttpConnections(url, timeout=timeout)
        self._ask_token = token
        self._token: str | None = None
        self._org = org

    def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> HttpReply:
        if self._token is None:
            self._token = self._ask_token()
        known = {"Authorization": f"Bearer {self._token}"}
        if self._org is not None:
            known[ORG_HEADER] = self._org
        return self._connections.send(method, path, data, {**known, **headers})

    def close(self) -> None:
        self._connections.close()
