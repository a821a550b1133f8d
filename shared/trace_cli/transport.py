"""How commands reach the user API: by one method, so that another way in can be added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from trace_core import bootstrap, telemetry
from trace_core.adapters.lite.home import Home
from trace_core.bootstrap import App
from trace_core.http.auth import ORG_HEADER
from trace_core.http.proxy_event import LocalContext, rest_event
from trace_core.kernel.errors import TraceError, Unavailable
from trace_core.settings import Settings


def quoted(name: str) -> str:
    """A name as one part of a path, whatever was typed."""
    return quote(name, safe="") or "-"


class ApiError(TraceError):
    """The API refused the request."""

    def __init__(self, status: int, details: Mapping[str, Any]) -> None:
        message = details.get("message") or f"The API answered {status}."
        super().__init__(str(message))
        self.http_status = status
        self.details = dict(details)


class Transport(Protocol):
    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The answer's JSON; raises ApiError."""
        ...


class LocalTransport:
    """Calls the user API's handler in this process, as API Gateway would."""

    def __init__(self, app: App) -> None:
        self._app = app

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        from functions.user_api.handler import handler

        given = {name: value for name, value in (query or {}).items() if value is not None}
        event = rest_event(
            method,
            path,
            query=urlencode(given),
            headers={
                "Authorization": f"Bearer {self._app.user_token}",
                "Content-Type": "application/json",
                ORG_HEADER: self._app.settings.org,
            },
            body=b"" if body is None else json.dumps(body).encode(),
        )
        answer = handler(event, LocalContext("cli", "user_api"))
        content: dict[str, Any] = json.loads(answer["body"])
        if answer["statusCode"] < 400:
            return content
        raise _error(answer["statusCode"], content.get("error", {}), self._app)


def _error(status: int, details: Mapping[str, Any], app: App) -> ApiError:
    if status == 500:
        message = f"Something failed inside Trace; see {app.home.log_file}."
        return ApiError(status, {**details, "message": message})
    return ApiError(status, details)


def _beside_dev(settings: Settings) -> Settings:
    """With the issuer's port of the `trace dev` that runs in this folder, whichever it took."""
    running = Home(settings.home).running() or {}
    port = urlsplit(running.get("urls", {}).get("issuer", "")).port
    return settings.model_copy(update={"issuer_port": port}) if port else settings


@contextmanager
def local_app() -> Iterator[App]:
    """The app of this folder with a migrated database; our own Postgres is started if need be."""
    settings = _beside_dev(Settings.from_env())
    with ExitStack() as stack:
        app = stack.enter_context(bootstrap.running(App(settings)))
        log = stack.enter_context(app.home.log_file.open("a", encoding="utf-8"))
        stack.enter_context(telemetry.redirected(log))
        if settings.state_dsn is None:
            app.migrate()
        elif any(each.applied_at is None for each in app.migrations()):
            raise Unavailable("The state database lacks migrations: run `trace db migrate`.")
        yield app


@contextmanager
def connect() -> Iterator[Transport]:
    with local_app() as app:
        yield LocalTransport(app)
