"""`trace outbox`: what waits to leave the database, or was given up."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, Cursor, ago, hint, more, print_json, say, table
from trace_cli.transport import connect
from trace_core.http.work_answers import OutboxRow
from trace_core.outbox.model import OutboxStatus

commands = typer.Typer(
    help="What waits to leave the database, or was given up.", no_args_is_help=True
)

Kind = Annotated[str | None, typer.Option(help="Only rows of this kind: wake or repoint.")]
Target = Annotated[
    str | None, typer.Option(help="Only rows for this target: a runtime, or the id of a DAG.")
]


@commands.command(name="list")
def list_rows(
    status: Annotated[OutboxStatus | None, typer.Option(help="Only rows in this state.")] = None,
    kind: Kind = None,
    target: Target = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List outbox rows, the oldest first."""
    with connect() as api:
        found = api.outbox(status=status, kind=kind, target=target, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
    elif not found.rows:
        say("No outbox rows.")
    else:
        columns = (
            "Row",
            "Kind",
            "Target",
            "Tasks",
            "Status",
            "Tries",
            "Created",
            "Next try",
            "Error",
        )
        table(columns, [_row(each) for each in found.rows])
        if found.next:
            more(found.next)
        elif any(each.status is OutboxStatus.FAILED for each in found.rows):
            hint("Next: remove the cause, then trace outbox reset")


def _row(row: OutboxRow) -> tuple[object, ...]:
    failed = row.status is OutboxStatus.FAILED
    return (
        row.outbox_id,
        row.kind,
        row.target,
        row.tasks,
        row.status,
        row.attempts,
        ago(row.created_at),
        None if failed else ago(row.available_at),
        row.last_error,
    )


@commands.command()
def reset(
    rows: Annotated[
        list[str] | None, typer.Argument(help="Ids of rows; all that fit without any.")
    ] = None,
    status: Annotated[
        OutboxStatus, typer.Option(help="Rows that were given up, or that are postponed.")
    ] = OutboxStatus.FAILED,
    kind: Kind = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Let the relay try again: now, and as often as at first for what it gave up."""
    with connect() as api:
        done = api.reset_outbox(status=status, kind=kind, target=target, outbox_ids=rows or None)
    if as_json:
        print_json(done)
    else:
        say(f"Reset {done.reset} outbox row{'' if done.reset == 1 else 's'}.")
