"""`trace quota`: how much the org may run at once and start in an hour."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, hint, print_json, say, table
from trace_cli.transport import connect
from trace_core.http.work_answers import Counter

commands = typer.Typer(
    help="How much the org may run at once and start in an hour.", no_args_is_help=True
)


@commands.command(name="list")
def list_counters(as_json: AsJson = False) -> None:
    """List what limits the org: its quota, worker pools, jobs with a max_concurrency."""
    with connect() as api:
        found = api.quotas()
    if as_json:
        print_json(found)
    elif not found.counters:
        say("Nothing is limited.")
        hint("Next: trace quota set --max-running 100")
    else:
        columns = ("Limit", "DAG", "Name", "Running", "Starts this hour", "Kept for live", "Note")
        table(columns, [_row(each) for each in found.counters])


def _row(counter: Counter) -> tuple[object, ...]:
    running = _of(counter.running, counter.max_running)
    starts = _of(counter.starts_this_hour, counter.max_starts_hourly)
    return (
        counter.kind,
        counter.dag,
        counter.name,
        running,
        starts if counter.max_starts_hourly is not None else None,
        counter.reserved_for_live,
        "full" if _is_full(counter) else None,
    )


def _of(used: int, limit: int | None) -> str:
    return f"{used}/{limit}" if limit is not None else str(used)


def _is_full(counter: Counter) -> bool:
    pairs = (
        (counter.running, counter.max_running),
        (counter.starts_this_hour, counter.max_starts_hourly),
    )
    return any(limit is not None and used >= limit for used, limit in pairs)


@commands.command(name="set")
def set_quota(
    max_running: Annotated[
        int | None, typer.Option(min=0, help="Tasks at once; without it there is no such limit.")
    ] = None,
    max_starts_hourly: Annotated[
        int | None,
        typer.Option(min=0, help="Starts in an hour; without it there is no such limit."),
    ] = None,
    reserved_for_live: Annotated[
        int, typer.Option(min=0, help="Of the tasks at once, those that backfill leaves free.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Set the quota of the org, as an administrator; what runs already counts and goes on."""
    with connect() as api:
        done = api.set_quota(
            max_running=max_running,
            reserved_for_live=reserved_for_live,
            max_starts_hourly=max_starts_hourly,
        )
    if as_json:
        print_json(done)
    else:
        say("Set the quota.")
        hint("Next: trace quota list")


@commands.command()
def clear(as_json: AsJson = False) -> None:
    """Remove the quota of the org, as an administrator."""
    with connect() as api:
        done = api.clear_quota()
    if as_json:
        print_json(done)
    else:
        say("Removed the quota." if done.cleared else "There is no quota.")
