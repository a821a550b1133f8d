"""`trace task`: tasks, their attempts and logs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trace_cli.output import AsJson, ago, fields, hint, print_json, say, scope, table
from trace_cli.transport import connect, quoted
from trace_core.tasks.model import TaskStatus

commands = typer.Typer(help="Tasks, their attempts and logs.", no_args_is_help=True)

TaskArgument = Annotated[str, typer.Argument(help="Id of the task.")]


@commands.command(name="list")
def list_tasks(
    dag: Annotated[str | None, typer.Option(help="Only tasks of this DAG.")] = None,
    job: Annotated[str | None, typer.Option(help="Only tasks of this job.")] = None,
    status: Annotated[TaskStatus | None, typer.Option(help="Only tasks in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    before: Annotated[str | None, typer.Option(help="Go on after this task of a list.")] = None,
    as_json: AsJson = False,
) -> None:
    """List tasks, the newest first."""
    query = {
        "dag": dag,
        "job": job,
        "status": status.value if status else None,
        "limit": limit,
        "before": before,
    }
    with connect() as api:
        tasks = api.call("GET", "/v1/tasks", query=query)["tasks"]
    if as_json:
        print_json({"tasks": tasks})
    elif not tasks:
        say("No tasks.")
    else:
        columns = ("Task", "DAG", "Job", "Scope", "Status", "Attempt", "Created", "Note")
        table(columns, [_row(each) for each in tasks])
        if len(tasks) == limit:
            hint(f"Next: add --before {tasks[-1]['task_id']} for older ones")


def _row(task: dict[str, Any]) -> tuple[object, ...]:
    return (
        task["task_id"],
        task["dag"],
        task["job"],
        scope(task["scope"]),
        task["status"],
        f"{task['attempt']}/{task['max_attempts']}",
        ago(task["created_at"]),
        _note(task),
    )


def _note(task: dict[str, Any]) -> str | None:
    """Why it does not run, or what went wrong."""
    if task["waits_for"]:
        due = task["due_at"] if task["waits_for"] in ("its retry", "its next slice") else None
        return f"waits for {task['waits_for']}" + (f", {ago(due)}" if due else "")
    if task["canceled_at"]:
        return "asked to cancel"
    if task["status"] == TaskStatus.FAILED:
        return str(task["error_code"] or "failed")
    return None


@commands.command()
def show(task: TaskArgument, as_json: AsJson = False) -> None:
    """Show one task: where it is, what made it, each attempt, what it wrote and announced."""
    with connect() as api:
        found = api.call("GET", f"/v1/tasks/{quoted(task)}")
    if as_json:
        print_json(found)
        return
    fields(
        [
            ("Task", found["task_id"]),
            ("Job", f"{found['dag']}.{found['job']} ({found['operator']})"),
            ("Status", found["status"]),
            ("Note", _note(found)),
            ("Attempt", f"{found['attempt']} of {found['max_attempts']}"),
            ("Scope", scope(found["scope"])),
            ("Created", ago(found["created_at"])),
            ("Started", ago(found["started_at"])),
            ("Ended", ago(found["ended_at"])),
            ("Worker", found["worker_id"]),
            ("Lease ends", ago(found["lease_expires_at"])),
            ("Made by", found["producer_task_id"]),
            # The rest of it, often a traceback, is in the log.
            ("Error", (found["error_message"] or "").strip().partition("\n")[0] or None),
        ]
    )
    _section(
        found["attempts"],
        ("Attempt", "Outcome", "Started", "Ended", "Worker", "Error"),
        ("attempt", "outcome", "started_at", "ended_at", "worker_id", "error_code"),
    )
    _section(
        found["outputs"],
        ("Output", "Scope", "Rows", "Location"),
        ("output_index", "scope", "row_count", "location"),
    )
    _section(
        found["events"],
        ("Event", "Scope", "Revision", "Accepted"),
        ("event_id", "scope", "revision", "accepted_at"),
    )
    hint(f"Next: trace task logs {found['task_id']}")


def _section(rows: list[dict[str, Any]], columns: tuple[str, ...], names: tuple[str, ...]) -> None:
    if rows:
        cells = [
            [ago(row[name]) if name.endswith("_at") else row[name] for name in names]
            for row in rows
        ]
        table(columns, cells)


@commands.command()
def cancel(task: TaskArgument, as_json: AsJson = False) -> None:
    """Cancel a task; one that runs is asked to stop."""
    with connect() as api:
        done = api.call("POST", f"/v1/tasks/{quoted(task)}/cancel")
    if as_json:
        print_json(done)
    elif done["status"] == TaskStatus.RUNNING:
        say(f"Asked {task} to stop; it is canceled once its worker agrees or its lease ends.")
    else:
        say(f"Canceled {task}.")


@commands.command()
def retry(task: TaskArgument, as_json: AsJson = False) -> None:
    """Run a task again that ended Failed or Canceled."""
    with connect() as api:
        done = api.call("POST", f"/v1/tasks/{quoted(task)}/retry")
    if as_json:
        print_json(done)
    else:
        say(f"Queued {task} again.")


@commands.command()
def logs(task: TaskArgument, as_json: AsJson = False) -> None:
    """Print what the attempts of a task wrote; a quiet success writes nothing."""
    with connect() as api:
        found = api.call("GET", f"/v1/tasks/{quoted(task)}/logs")["logs"]
    if as_json:
        print_json({"logs": found})
    elif not found:
        say("No logs.")
    else:
        for each in found:
            say(f"--- attempt {each['attempt']}, slice {each['lease_sequence']}", each["text"])
