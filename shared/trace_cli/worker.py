"""`trace worker`: the worker wrapper alone, against an internal API elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.interrupt import until_interrupted
from trace_cli.output import say
from trace_cli.transport import on_this_machine
from trace_core.bootstrap import App
from trace_core.kernel.errors import Invalid
from trace_core.settings import Settings


def worker(
    children: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
    poll_seconds: Annotated[
        float, typer.Option(min=0.05, max=60, help="How often to ask for work without a wake-up.")
    ] = 1.0,
) -> None:
    """Run tasks for the internal API at TRACE_INTERNAL_URL, until interrupted."""
    from trace_cli.platform import Choices, Worker

    on_this_machine()
    settings = Settings.from_env()
    app = App(settings)
    token = (
        settings.worker_token.get_secret_value()
        if settings.worker_token
        else app.home.known_token("worker")
    )
    if token is None:
        raise Invalid("No worker token: set TRACE_WORKER_TOKEN, or start `trace dev` here first.")
    with until_interrupted() as stop:
        choices = Choices(children=children)
        wrapper = Worker(app, token, choices, poll_seconds=poll_seconds)
        wrapper.start()
        say(f"Working for {settings.internal_address} with {children} processes.")
        try:
            while not stop.is_set() and not wrapper.wait(0.2):
                pass
        finally:
            wrapper.stop()
    if wrapper.error is not None:
        raise wrapper.error
    say("Stopped.")
