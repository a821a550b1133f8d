"""`trace queue`: the wake-up queues of the org, and their dead messages."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, hint, print_json, say, table
from trace_cli.transport import connect

commands = typer.Typer(help="Wake-up queues and their dead messages.", no_args_is_help=True)


@commands.command(name="list")
def list_queues(as_json: AsJson = False) -> None:
    """List the queues: messages that wait, are in flight, are dead."""
    with connect() as api:
        found = api.queues()
    if as_json:
        print_json(found)
        return
    table(
        ("Runtime", "Queue", "Waiting", "In flight", "Dead"),
        [
            (each.runtime, each.queue, each.visible, each.in_flight, each.dead)
            for each in found.queues
        ],
    )
    if any(each.dead for each in found.queues):
        hint("Next: trace queue redrive")


@commands.command()
def redrive(
    runtime: Annotated[str, typer.Argument(help="Whose queue.")] = "worker",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Move dead messages back to their queue, the longest dead first."""
    with connect() as api:
        done = api.redrive(runtime, limit)
    if as_json:
        print_json(done)
    else:
        say(f"Moved {done.moved} message{'' if done.moved == 1 else 's'} back.")
