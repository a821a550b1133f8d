"""`trace event`: what tasks announced."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, Cursor, ago, more, print_json, say, scope, table
from trace_cli.transport import connect

commands = typer.Typer(help="What tasks announced.", no_args_is_help=True)


@commands.command(name="list")
def list_events(
    dag: Annotated[str | None, typer.Option(help="Only events of this DAG.")] = None,
    job: Annotated[str | None, typer.Option(help="Only events of this job.")] = None,
    task: Annotated[str | None, typer.Option(help="Only events of this task.")] = None,
    of_scope: Annotated[
        str | None, typer.Option("--scope", help="Only this cursor or partition key.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List events, the newest first."""
    with connect() as api:
        found = api.events(dag=dag, job=job, task=task, scope=of_scope, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return
    if not found.events:
        say("No events." if found.next is None else "No events so far back.")
    else:
        table(
            ("Event", "DAG", "Job", "Scope", "Revision", "Accepted", "Task"),
            [
                (
                    each.event_id,
                    each.dag,
                    each.job,
                    scope(each.scope),
                    each.revision,
                    ago(each.accepted_at),
                    each.task_id,
                )
                for each in found.events
            ],
        )
    more(found.next)
