"""`trace status`: what waits, runs and failed, job by job."""

from __future__ import annotations

from datetime import datetime

from trace_cli.output import AsJson, hint, print_json, say, span, table
from trace_cli.transport import connect
from trace_core.http.work_answers import JobStatus, Status


def status(as_json: AsJson = False) -> None:
    """Show the backlog of every job, and how many tasks of the last 24 hours have completed."""
    with connect() as api:
        found = api.status()
    if as_json:
        print_json(found)
    elif not found.jobs:
        say("No DAG is deployed.")
        hint("Next: trace dag apply FILE, then trace dev")
    else:
        columns = (
            "DAG", "Job", "Runtime", "Queued", "Running", "Retrying", "Failed",
            "Done 24 h", "Oldest",
        )  # fmt: skip
        table(columns, [_row(each, found.now) for each in found.jobs])
        say(summary(found))
        if found.totals.failed:
            hint("Next: trace task list --status Failed")
        if any(each.forbidden for each in found.jobs):
            hint(
                "Forbidden: who deployed it may no longer read an input. "
                "Next: trace dataset show NAME, of each input from another DAG"
            )


def _row(job: JobStatus, now: datetime) -> tuple[object, ...]:
    marks = [
        *([] if job.standing == "active" else [job.standing]),
        *(["paused"] if job.paused else []),
        *(["forbidden"] if job.forbidden else []),
    ]
    name = f"{job.job} ({', '.join(marks)})" if marks else job.job
    counts = (job.queued, job.running, job.retrying, job.failed, job.completed_24h)
    return (job.dag, name, job.runtime, *counts, _age(job.oldest_ready_at, now))


def _age(since: datetime | None, now: datetime) -> str | None:
    return None if since is None else span(max(0.0, (now - since).total_seconds()))


def summary(found: Status) -> str:
    totals, outbox = found.totals, found.outbox
    return (
        f"{totals.queued} queued, {totals.running} running, "
        f"{totals.retrying} retrying, {totals.failed} failed, "
        f"{totals.completed_24h} completed in 24 h; "
        f"outbox {outbox.pending} pending, {outbox.failed} failed"
    )
