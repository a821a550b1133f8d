"""The three APIs over real HTTP for tests of identity: several people, one platform."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from functions.internal_api.handler import handler as internal_api
from functions.task_api.handler import handler as task_api
from functions.user_api.handler import handler as user_api
from trace_core import bootstrap
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.bootstrap import App
from trace_core.http.routes import Surface
from trace_core.identity.model import SYSTEM, PlatformRole

HOUR = timedelta(hours=1)
HANDLERS = {Surface.USER: user_api, Surface.INTERNAL: internal_api, Surface.TASK: task_api}


class Reply(NamedTuple):
    status: int
    body: Any
    text: str
    headers: dict[str, str]


class Served:
    """One app behind its three ports."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._using = bootstrap.using(app)
        self._using.__enter__()
        self.servers = {
            surface: LocalServer(surface.value, handler, 0) for surface, handler in HANDLERS.items()
        }
        for server in self.servers.values():
            server.start()

    def stop(self) -> None:
        # What waits for arrivals has a thread that would outlive the test.
        self.app.end_waits()
        for server in self.servers.values():
            server.stop()
        self._using.__exit__(None, None, None)

    def send(
        self,
        surface: Surface,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.servers[surface].port, timeout=10)
        try:
            connection.request(method, path, data, dict(headers or {}))
            response = connection.getresponse()
            text = response.read().decode()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, json.loads(text), text, found)
        finally:
            connection.close()

    def call(
        self,
        token: str,
        method: str,
        path: str,
        body: object = None,
        *,
        surface: Surface = Surface.USER,
        org: str | None = None,
    ) -> Reply:
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if org is not None:
            headers["X-Trace-Org"] = org
        data = None if body is None else json.dumps(body).encode()
        return self.send(surface, method, path, data, headers)

    def member(self, name: str, role: PlatformRole) -> Person:
        """A new member of the app's own org."""
        self.app.members.add(self.app.own_org, self.app.subject(name), role, None, SYSTEM)
        return Person(self, name)


class Person:
    """Somebody with a token, who calls the user API."""

    def __init__(self, served: Served, name: str) -> None:
        self.served, self.name = served, name

    @property
    def token(self) -> str:
        return self.served.app.development_issuer.mint(self.name, HOUR)

    def call(self, method: str, path: str, body: object = None, org: str | None = None) -> Reply:
        return self.served.call(self.token, method, path, body, org=org)

    def ok(self, method: str, path: str, body: object = None) -> Any:
        reply = self.call(method, path, body)
        assert reply.status < 300, reply
        return reply.body


def audited(admin: Person, **query: str) -> list[tuple[str, str]]:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    entries = admin.ok("GET", f"/v1/audit?{text}")["entries"]
    return [(each["action"], each["target"]) for each in entries]
