"""`trace dev`: the whole platform on this machine, until it is interrupted."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from trace_cli.changes import deploy_file, deployed_line
from trace_cli.interrupt import until_interrupted
from trace_cli.output import console, hint, say
from trace_cli.transport import LocalTransport, on_this_machine
from trace_client import Client
from trace_core import telemetry
from trace_core.adapters.lite.home import Home
from trace_core.bootstrap import App
from trace_core.http.work_answers import Status
from trace_core.kernel.errors import Conflict, TraceError
from trace_core.settings import Settings

REFRESH_SECONDS = 0.5
PLAIN_SECONDS = 10.0


class AlreadyRunning(Conflict):
    """Another `trace dev` uses this folder."""

    code = "AlreadyRunning"


def dev(
    deploy: Annotated[
        list[Path] | None, typer.Option(help="DAG file to deploy at the start; repeatable.")
    ] = None,
    children: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
) -> None:
    """Run the whole platform on this machine: Postgres, APIs, functions and a worker."""
    from trace_cli.platform import Choices, Platform

    on_this_machine()
    settings = Settings.from_env()
    home = Home(settings.home)
    other = home.running()
    if other is not None:
        raise AlreadyRunning(f"trace dev already runs in {home.folder} (process {other['pid']}).")
    with until_interrupted() as stop, _logs_in(home.log_file):
        say("Starting Trace …")
        with Platform(settings, Choices(children=children)) as platform:
            servers = [*platform.servers, *([platform.issuer] if platform.issuer else [])]
            urls = {server.name: server.url for server in servers}
            home.write_running({"urls": urls, "org": settings.org})
            try:
                for name, url in urls.items():
                    say(f"  {name:<13} {url}")
                say(f"  {'home':<13} {home.folder}")
                api = Client(LocalTransport(platform.app))
                for file in deploy or []:
                    say(deployed_line(deploy_file(api, file)))
                hint("Ctrl-C stops everything. In another terminal: trace status")
                _watch(platform.app, stop)
                say("Stopping …")
            finally:
                home.remove_running()
        say("Stopped.")


def _watch(app: App, stop: threading.Event) -> None:
    """A line that changes in place, or a line whenever something changed where it cannot."""
    out = console()
    if out.is_terminal:
        with Live(Text(""), console=out, auto_refresh=False) as live:
            while not stop.is_set():
                live.update(_line(app), refresh=True)
                stop.wait(REFRESH_SECONDS)
        return
    shown = ""
    while not stop.is_set():
        line = _line(app).plain
        if line != shown:
            say(line)
            shown = line
        stop.wait(PLAIN_SECONDS)


def _line(app: App) -> Text:
    """Past the API, whose requests are counted: this asks twice a second."""
    try:
        found = Status(**app.views.status(app.own_org))
    except TraceError as error:
        return Text(error.message, style="red")
    return status_line(found)


def status_line(found: Status) -> Text:
    totals, outbox = found.totals, found.outbox
    parts = [
        ("queued", totals.queued, "cyan"),
        ("running", totals.running, "blue"),
        ("completed in 24 h", totals.completed_24h, "green"),
        ("failed", totals.failed, "red" if totals.failed else ""),
        ("outbox", outbox.pending, ""),
    ]
    if outbox.failed:
        parts.append(("outbox failed", outbox.failed, "red"))
    line = Text()
    for name, value, style in parts:
        line.append(f"{name} ", "dim").append(f"{value}", style).append("   ")
    line.rstrip()
    return line


def _logs_in(path: Path) -> ExitStack:
    """Send log lines to a file as long as the terminal shows the status."""
    stack = ExitStack()
    file = stack.enter_context(path.open("a", encoding="utf-8"))
    stack.enter_context(telemetry.redirected(file))
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("trace_core").addHandler(handler)
    stack.callback(handler.close)
    stack.callback(logging.getLogger("trace_core").removeHandler, handler)
    return stack
