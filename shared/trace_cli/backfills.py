"""`trace dag backfill` and `trace backfill`: a range of one job, computed again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from trace_cli.output import AsJson, Cursor, ago, hint, more, print_json, say, table
from trace_cli.transport import connect
from trace_client import Client, each_page
from trace_core.http.deploy_answers import Backfill
from trace_core.kernel.errors import Invalid, NotFound

commands = typer.Typer(help="Ranges of one job, computed again.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(help="Name of the DAG.")]
Number = Annotated[
    int | None, typer.Argument(min=1, help="Which one; default: the only one that has not ended.")
]
_FIRST, _SLOWEST, _GROWTH = 0.3, 3.0, 1.3


def backfill(
    dag: Dag,
    job: Annotated[str, typer.Argument(help="Name of a reactive job.")],
    start: Annotated[int, typer.Option("--from", min=0, help="Where the range starts.")],
    end: Annotated[int, typer.Option("--to", min=0, help="Where it ends; this belongs to it.")],
    reason: Annotated[str, typer.Option(help="Why; for those who look at it later.")] = "",
    window: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Tasks that are open at once, at most.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute a range of one job again, below live work."""
    with connect() as api:
        begun = api.begin_backfill(dag, job, start, end, reason=reason, window=window)
        scopes = "1 scope" if begun.scopes == 1 else f"{begun.scopes} scopes"
        if not as_json:
            say(f"Backfill {begun.number} of {dag}.{job} computes {scopes} again.")
        if wait:
            ended = _watch(api, dag, begun.number, quiet=as_json)
            if as_json:
                print_json(ended)
            else:
                say(_line(ended))
            raise typer.Exit(0 if ended.status == "Done" and not ended.failed else 1)
    if as_json:
        print_json(begun)
    else:
        hint(f"Next: trace backfill list {dag}")


def _watch(
    api: Client,
    dag: str,
    number: int,
    *,
    quiet: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Backfill:
    pause, shown = _FIRST, -1
    while True:
        found = _one(api, dag, number)
        if found.ended_at is not None:
            return found
        tenth = 10 * found.completed // max(1, found.scopes)
        if not quiet and tenth != shown:
            say(_line(found))
            shown = tenth
        sleep(pause)
        pause = min(_SLOWEST, pause * _GROWTH)


def _one(api: Client, dag: str, number: int) -> Backfill:
    for page in each_page(lambda at: api.backfills(dag, cursor=at)):
        for each in page.backfills:
            if each.number == number:
                return each
    raise NotFound(f"No backfill {number} of a DAG {dag}.")


def _line(found: Backfill) -> str:
    failed = f", {found.failed} failed" if found.failed else ""
    return f"{found.status}: {found.completed} of {found.scopes} scopes completed{failed}"


@commands.command(name="list")
def list_backfills(
    dag: Dag,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the backfills of a DAG, the newest first."""
    with connect() as api:
        found = api.backfills(dag, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
    elif not found.backfills:
        say("No backfills.")
        hint(f"Next: trace dag backfill {dag} JOB --from A --to B")
    else:
        table(
            ("Backfill", "Job", "Range", "Status", "Completed", "Failed", "Began", "By", "Reason"),
            [_row(each) for each in found.backfills],
        )
        more(found.next)


def _row(each: Backfill) -> tuple[object, ...]:
    return (
        each.number,
        each.job,
        f"{each.start}-{each.end}",
        each.status,
        f"{each.completed}/{each.scopes}",
        each.failed,
        ago(each.created_at),
        each.created_by,
        each.reason or None,
    )


@commands.command()
def pause(dag: Dag, number: Number = None, as_json: AsJson = False) -> None:
    """Make no more tasks; those that are made run on."""
    with connect() as api:
        done = api.pause_backfill(dag, number or _only(api, dag))
    if as_json:
        print_json(done)
    else:
        say(f"Backfill {done.number} of {dag} is paused.")
        hint(f"Next: trace backfill resume {dag} {done.number}")


@commands.command()
def resume(dag: Dag, number: Number = None, as_json: AsJson = False) -> None:
    """Let a paused backfill go on."""
    with connect() as api:
        done = api.resume_backfill(dag, number or _only(api, dag))
    if as_json:
        print_json(done)
    else:
        say(f"Backfill {done.number} of {dag} goes on.")


@commands.command()
def cancel(dag: Dag, number: Number = None, as_json: AsJson = False) -> None:
    """Give up a backfill; what is done stays."""
    with connect() as api:
        done = api.cancel_backfill(dag, number or _only(api, dag))
    if as_json:
        print_json(done)
    else:
        tasks = "1 open task" if done.canceled == 1 else f"{done.canceled} open tasks"
        say(f"Backfill {done.number} of {dag} is canceled, with {tasks}.")


def _only(api: Client, dag: str) -> int:
    """The one that has not ended; of several, somebody must choose."""
    found = [each.number for each in api.backfills(dag).backfills if each.ended_at is None]
    if not found:
        raise NotFound(f"No backfill of {dag} is under way.")
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise Invalid(f"Several backfills of {dag} are under way: name one of {names}.")
    return found[0]
