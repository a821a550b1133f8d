"""`trace task`: tasks, their attempts and logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from trace_cli.output import (
    AsJson,
    Cursor,
    ago,
    fields,
    hint,
    more,
    print_json,
    say,
    scope,
    table,
)
from trace_cli.transport import connect
from trace_core.http.work_answers import Attempt, Task, TaskRun
from trace_core.tasks.model import TaskStatus

commands = typer.Typer(help="Tasks, their attempts and logs.", no_args_is_help=True)

TaskArgument = Annotated[str, typer.Argument(help="Id of the task.")]


@commands.command(name="list")
def list_tasks(
    dag: Annotated[str | None, typer.Option(help="Only tasks of this DAG.")] = None,
    job: Annotated[str | None, typer.Option(help="Only tasks of this job.")] = None,
    status: Annotated[TaskStatus | None, typer.Option(help="Only tasks in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List tasks, the newest first."""
    with connect() as api:
        found = api.tasks(dag=dag, job=job, status=status, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
    elif not found.tasks:
        say("No tasks.")
    else:
        columns = ("Task", "DAG", "Job", "Scope", "Status", "Attempt", "Created", "Note")
        table(columns, [_row(each) for each in found.tasks])
        more(found.next)


def _row(task: Task) -> tuple[object, ...]:
    return (
        task.task_id,
        task.dag,
        task.job,
        scope(task.scope),
        task.status,
        f"{task.attempt}/{task.max_attempts}",
        ago(task.created_at),
        _note(task),
    )


def _note(task: Task) -> str | None:
    """Why it does not run, or what went wrong."""
    if task.waits_for:
        due = task.due_at if task.waits_for in ("its retry", "its next slice") else None
        return f"waits for {task.waits_for}" + (f", {ago(due)}" if due else "")
    if task.canceled_at:
        return "asked to cancel"
    if task.status is TaskStatus.FAILED:
        return task.error_code or "failed"
    return None


@commands.command()
def show(task: TaskArgument, as_json: AsJson = False) -> None:
    """Show one task: where it is, what made it, each attempt, what it wrote and announced."""
    with connect() as api:
        found = api.task(task)
    if as_json:
        print_json(found)
        return
    fields(
        [
            ("Task", found.task_id),
            ("Job", f"{found.dag}.{found.job} ({found.operator})"),
            ("Status", found.status),
            ("Note", _note(found)),
            ("Attempt", f"{found.attempt} of {found.max_attempts}"),
            ("Scope", scope(found.scope)),
            ("Created", ago(found.created_at)),
            ("Started", ago(found.started_at)),
            ("Ended", ago(found.ended_at)),
            ("Worker", found.worker_id),
            ("Lease ends", ago(found.lease_expires_at)),
            ("Made by", found.producer_task_id),
            # The rest of it, often a traceback, is in the log.
            ("Error", (found.error_message or "").strip().partition("\n")[0] or None),
        ]
    )
    _print_attempts(found.attempts)
    _print_runs(found.runs)
    if found.outputs:
        table(
            ("Output", "Scope", "Rows", "Location"),
            [
                (each.output_index, scope(each.scope), each.row_count, each.location)
                for each in found.outputs
            ],
        )
    if found.events:
        table(
            ("Event", "Scope", "Revision", "Accepted"),
            [
                (each.event_id, scope(each.scope), each.revision, ago(each.accepted_at))
                for each in found.events
            ],
        )
    hint(f"Next: trace task logs {found.task_id}")


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    if attempts:
        table(
            ("Attempt", "Outcome", "Started", "Ended", "Worker", "Error"),
            [
                (
                    each.attempt,
                    each.outcome,
                    ago(each.started_at),
                    ago(each.ended_at),
                    each.worker_id,
                    each.error_code,
                )
                for each in attempts
            ],
        )


def _print_runs(runs: Sequence[TaskRun]) -> None:
    if runs:
        table(
            ("Run", "Attempt", "State", "Queued", "Start-up", "Ran", "vCPU h", "GB h", "Disk GB h"),
            [
                (
                    each.run_id or "-",
                    each.attempt,
                    each.state,
                    _seconds(each.queued_seconds),
                    _seconds(each.startup_seconds),
                    _seconds(each.run_seconds),
                    _hours(each.vcpu_hours),
                    _hours(each.memory_gb_hours),
                    _hours(each.storage_gb_hours),
                )
                for each in runs
            ],
        )


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} s"


def _hours(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


@commands.command()
def attempts(
    task: TaskArgument,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the attempts of a task that have ended, the first one first."""
    with connect() as api:
        found = api.attempts(task, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
    elif not found.attempts:
        say("No attempt has ended.")
    else:
        _print_attempts(found.attempts)
        more(found.next)


@commands.command()
def cancel(task: TaskArgument, as_json: AsJson = False) -> None:
    """Cancel a task; one that runs is asked to stop."""
    with connect() as api:
        done = api.cancel_task(task)
    if as_json:
        print_json(done)
    elif done.status is TaskStatus.RUNNING:
        say(f"Asked {task} to stop; it is canceled once its worker agrees or its lease ends.")
    else:
        say(f"Canceled {task}.")


@commands.command()
def retry(task: TaskArgument, as_json: AsJson = False) -> None:
    """Run a task again that ended Failed or Canceled."""
    with connect() as api:
        done = api.retry_task(task)
    if as_json:
        print_json(done)
    else:
        say(f"Queued {task} again.")


@commands.command()
def logs(task: TaskArgument, as_json: AsJson = False) -> None:
    """Print what the attempts of a task wrote; a quiet success writes nothing."""
    with connect() as api:
        found = api.logs(task)
    if as_json:
        print_json(found)
    elif not found.logs:
        say("No logs.")
    else:
        for each in found.logs:
            say(f"--- attempt {each.attempt}, slice {each.lease_sequence}", each.text)
