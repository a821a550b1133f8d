"""`trace queue`: the wake-up queues of the org, and their dead messages."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, hint, print_json, say, table
from trace_cli.transport import connect, quoted

commands = typer.Typer(help="Wake-up queues and their dead messages.", no_args_is_help=True)


@commands.command(name="list")
def list_queues(as_json: AsJson = False) -> None:
    """List the queues: messages that wait, are in flight, are dead."""
    with connect() as api:
        queues = api.call("GET", "/v1/queues")["queues"]
    if as_json:
        print_json({"queues": queues})
        return
    names = ("runtime", "queue", "visible", "in_flight", "dead")
    table(
        ("Runtime", "Queue", "Waiting", "In flight", "Dead"),
        [[each[name] for name in names] for each in queues],
    )
    if any(each["dead"] for each in queues):
        hint("Next: trace queue redrive")


@commands.command()
def redrive(
    runtime: Annotated[str, typer.Argument(help="Whose queue.")] = "worker",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Move dead messages back to their queue, the longest dead first."""
    with connect() as api:
        path = f"/v1/queues/{quoted(runtime)}/redrive"
        done = api.call("POST", path, body={"limit": limit})
    if as_json:
        print_json(done)
    else:
        say(f"Moved {done['moved']} message{'' if done['moved'] == 1 else 's'} back.")
