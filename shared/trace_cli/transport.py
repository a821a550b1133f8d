"""How commands reach the user API: by a profile, over HTTP or, with no server, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from urllib.parse import unquote, urlsplit

from trace_cli import profiles
from trace_cli.output import console
from trace_cli.profiles import LITE, LiteToken, Profile
from trace_client import ApiError, Client, HttpTransport
from trace_client.transport import ORG_HEADER
from trace_core import bootstrap, telemetry
from trace_core.adapters.lite.home import Home
from trace_core.bootstrap import App
from trace_core.http.proxy_event import LocalContext, rest_event
from trace_core.kernel.errors import Invalid, Unavailable
from trace_core.settings import Settings
from trace_core.worker.connections import HttpReply

chosen: ContextVar[str] = ContextVar("profile", default=LITE)
"""What `trace --profile` says."""


class LocalTransport:
    """Calls the user API's handler in this process, as API Gateway would."""

    def __init__(self, app: App) -> None:
        self._app = app

    def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> HttpReply:
        from functions.user_api.handler import handler

        parts = urlsplit(path)
        event = rest_event(
            method,
            # As the server in front of it would: the handler sees plain text.
            unquote(parts.path, errors="replace"),
            query=parts.query,
            headers={
                "Authorization": f"Bearer {self._app.user_token}",
                ORG_HEADER: self._app.settings.org,
                **headers,
            },
            body=data,
        )
        answer = handler(event, LocalContext("cli", "user_api"))
        said = {name.lower(): ", ".join(each) for name, each in answer["multiValueHeaders"].items()}
        return HttpReply(answer["statusCode"], said, answer["body"].encode())


def _beside_dev(settings: Settings) -> Settings:
    """With the issuer's port of the `trace dev` that runs in this folder, whichever it took."""
    running = Home(settings.home).running() or {}
    port = urlsplit(running.get("urls", {}).get("issuer", "")).port
    return settings.model_copy(update={"issuer_port": port}) if port else settings


def on_this_machine() -> None:
    """Refuse a profile where it would lead nowhere."""
    if chosen.get() != LITE:
        raise Invalid(
            f"This command works on this machine, not through the profile {chosen.get()}: "
            "leave --profile out."
        )


@contextmanager
def local_app() -> Iterator[App]:
    """The app of this folder with a migrated database; our own Postgres is started if need be."""
    on_this_machine()
    settings = _beside_dev(Settings.from_env())
    with ExitStack() as stack:
        app = stack.enter_context(bootstrap.running(App(settings)))
        log = stack.enter_context(app.home.log_file.open("a", encoding="utf-8"))
        stack.enter_context(telemetry.redirected(log))
        if settings.state_dsn is None:
            app.migrate()
        elif lacking := {which for which, each in app.migrations() if each.applied_at is None}:
            raise Unavailable(
                f"The {' and the '.join(sorted(lacking))} database lacks migrations: "
                "run `trace db migrate`."
            )
        yield app


@contextmanager
def connect() -> Iterator[Client]:
    """A client of whatever the profile names."""
    name = chosen.get()
    if name != LITE:
        with _served(profiles.find(name)) as client:
            yield client
        return
    settings = Settings.from_env()
    running = Home(settings.home).running() or {}
    address = running.get("urls", {}).get("user_api")
    if address and running.get("org") == settings.org:
        with _served(Profile(LITE, address, settings.org, LiteToken(settings.home))) as client:
            yield client
        return
    with local_app() as app, _explained(lambda error: _local(error, app)):
        yield Client(LocalTransport(app), sleep=_wait)


@contextmanager
def _served(profile: Profile) -> Iterator[Client]:
    transport = HttpTransport(profile.url, profile.read_token, profile.org)
    try:
        with _explained(lambda error: _refused(error, profile)):
            yield Client(transport, sleep=_wait)
    except Unavailable as error:
        message = f"{profile.url} (profile {profile.name}) does not answer: {error.message}"
        raise Unavailable(message) from error
    finally:
        transport.close()


def _wait(seconds: float) -> None:
    out = console(stderr=True)
    if out.is_terminal:
        out.print(f"Asked to wait for {seconds:.0f} s …", style="dim")
    time.sleep(seconds)


@contextmanager
def _explained(explain: Callable[[ApiError], str | None]) -> Iterator[None]:
    """Errors say where to look, which only this side knows."""
    try:
        yield
    except ApiError as error:
        message = explain(error)
        if message is None:
            raise
        raise ApiError(error.http_status, {**error.details, "message": message}) from error


def _local(error: ApiError, app: App) -> str | None:
    if error.http_status == 500:
        return f"Something failed inside Trace; see {app.home.log_file}."
    return None


def _refused(error: ApiError, profile: Profile) -> str | None:
    if error.http_status == 401:
        return (
            f"{error.message} {profile.url} refused the one of profile {profile.name}, which "
            f"comes from {profile.token}."
        )
    if not error.details:
        return (
            f"{profile.url} (profile {profile.name}) answered {error.http_status}, and not as "
            "Trace does: is the address right?"
        )
    return None
