"""`trace status`: what waits, runs and failed, job by job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trace_cli.output import AsJson, hint, print_json, say, span, table
from trace_cli.transport import connect


def status(as_json: AsJson = False) -> None:
    """Show the backlog of every job, and how many tasks of the last 24 hours have completed."""
    with connect() as api:
        found = api.call("GET", "/v1/status")
    if as_json:
        print_json(found)
    elif not found["jobs"]:
        say("No DAG is deployed.")
        hint("Next: trace dag deploy FILE, then trace dev")
    else:
        columns = (
            "DAG", "Job", "Runtime", "Queued", "Running", "Retrying", "Failed",
            "Completed 24 h", "Oldest waits",
        )  # fmt: skip
        table(columns, [_row(each, found["now"]) for each in found["jobs"]])
        say(summary(found))
        if found["totals"]["failed"]:
            hint("Next: trace task list --status Failed")


def _row(job: dict[str, Any], now: str) -> tuple[object, ...]:
    name = f"{job['job']} (paused)" if job["paused"] else job["job"]
    counts = (job[each] for each in ("queued", "running", "retrying", "failed", "completed_24h"))
    return (job["dag"], name, job["runtime"], *counts, _age(job["oldest_ready_at"], now))


def _age(since: str | None, now: str) -> str | None:
    if since is None:
        return None
    waited = datetime.fromisoformat(now) - datetime.fromisoformat(since)
    return span(max(0.0, waited.total_seconds()))


def summary(found: dict[str, Any]) -> str:
    totals, outbox = found["totals"], found["outbox"]
    return (
        f"{totals['queued']} queued, {totals['running']} running, "
        f"{totals['retrying']} retrying, {totals['failed']} failed, "
        f"{totals['completed_24h']} completed in 24 h; "
        f"outbox {outbox['pending']} pending, {outbox['failed']} failed"
    )
