"""`make demo`: run a DAG, kill a worker in the middle of a task; then edit a job, and go back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.panel import Panel
from rich.table import Table

from dags.demo_change import change_a_job
from dags.stage import DemoFailed, console, logs_aside, say
from trace_cli.changes import deploy_file
from trace_cli.platform import Choices, Platform
from trace_cli.transport import LocalTransport
from trace_client import Client
from trace_core.http.work_answers import Attempt, Scope, Task
from trace_core.settings import Settings
from trace_core.tasks.model import TaskStatus

HERE = Path(__file__).parent
DAG_FILE = HERE / "demo.dag.yaml"
OPERATORS = "dags.demo_operators"
# Of each job: the source goes on for ever; 120 blocks, 6 ranges of 20, 24 chunks of 5.
EXPECTED = {"ranges": 120, "chunks": 6, "measure": 24, "label": 24, "summary": 24}
PATIENCE_SECONDS = 120.0


def main() -> int:
    began = time.monotonic()
    home = Path(os.environ.get("TRACE_HOME", ".trace")) / "demo"
    shutil.rmtree(home, ignore_errors=True)
    settings = Settings(
        home=home,
        operator_modules=(OPERATORS,),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        lease_seconds=4,
        retry_seconds=1,
        # It looks at itself five times a second.
        user_requests=10_000,
        org_requests=10_000,
    )
    console.rule("[bold]Trace demo[/]")
    say("Starting Postgres, the three APIs, dispatcher, reaper and relay …")
    choices = Choices(children=0, reap_seconds=0.5, sweep_seconds=5.0, dispatch_seconds=0.5)
    with logs_aside(home), Platform(settings, choices) as platform:
        api = Client(LocalTransport(platform.app))
        try:
            worker = _run(api, platform, home)
            try:
                example = _what_happened(api, time.monotonic() - began)
                ended = change_a_job(api, DAG_FILE, home, console)
            finally:
                _stop(worker)
            if ended.status != "Done":
                raise DemoFailed(f"deploy {ended.number} is {ended.status}: {ended.error}")
        except DemoFailed as error:
            console.print(f"[red]The demo failed:[/] {error}")
            return 1
        _last_screen(home, example, time.monotonic() - began)
    return 0


def _run(api: Client, platform: Platform, home: Path) -> subprocess.Popen[bytes]:
    """Answers the worker that is left."""
    deploy_file(api, DAG_FILE)
    say(f"Deployed [bold]{DAG_FILE.name}[/]: 6 jobs with source, aggregator, splitter, fan-out")
    first = _worker(platform, home)
    say(f"Started worker 1 (process {first.pid})")
    slow = _wait(lambda: _slow_task(api), "the slow task to start", api)
    time.sleep(0.5)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    say(
        f"[red]Killed worker 1[/] with SIGKILL in the middle of task [bold]{slow.task_id}[/] "
        f"(measure, blocks {slow.scope.partition_key})"
    )
    second = _worker(platform, home)
    say(f"Started worker 2 (process {second.pid}); the lease of the dead one runs out in 4 s")
    _wait(lambda: _all_completed(api), "every task to complete", api, progress=True)
    return second


def _stop(worker: subprocess.Popen[bytes]) -> None:
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait(20)


def _worker(platform: Platform, home: Path) -> subprocess.Popen[bytes]:
    """A worker as another process has it: an address and a token, no database."""
    environment = {
        **os.environ,
        "TRACE_HOME": str(home),
        "TRACE_INTERNAL_URL": platform.app.settings.internal_address,
        "TRACE_TASK_API_URL": platform.app.settings.task_address,
        "TRACE_OPERATOR_MODULES": OPERATORS,
    }
    with (home / "worker.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            [str(Path(sys.executable).with_name("trace")), "worker", "--poll-seconds", "0.2"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _slow_task(api: Client) -> Task | None:
    for task in api.tasks(job="measure", status=TaskStatus.RUNNING).tasks:
        scope = task.scope or Scope()
        if (scope.start or 0) <= 55 <= (scope.end or -1):
            return task
    return None


def _all_completed(api: Client) -> bool:
    done = {job.job: job.completed_24h for job in api.status().jobs}
    return all(done[name] == count for name, count in EXPECTED.items())


def _wait(done: Callable[[], Any], what: str, api: Client, *, progress: bool = False) -> Any:
    """Poll until something is there; shows how far the DAG is meanwhile."""
    ends = time.monotonic() + PATIENCE_SECONDS
    with console.status(f"waiting for {what} …") as status:
        while time.monotonic() < ends:
            found = done()
            if found:
                return found
            if progress:
                totals = api.status().totals
                status.update(
                    f"queued {totals.queued}   running {totals.running}   "
                    f"retrying {totals.retrying}   completed {totals.completed_24h}"
                )
            time.sleep(0.2)
    raise DemoFailed(f"waited {PATIENCE_SECONDS:.0f} s for {what}")


def _what_happened(api: Client, seconds: float) -> str:
    """Answers a task that is worth a look."""
    retried = [
        api.task(task.task_id)
        for task in api.tasks(job="measure", limit=100).tasks
        if task.attempt > 1
    ]
    jobs = Table(title="What ran", title_justify="left")
    for column in ("job", "operator", "runtime", "completed", "failed"):
        jobs.add_column(column, justify="right" if column in ("completed", "failed") else "left")
    for job in api.status().jobs:
        done = "slices, goes on" if job.activation == "source" else str(job.completed_24h)
        jobs.add_row(job.job, job.operator, job.runtime, done, str(job.failed))
    attempts = Table(title="What the kill did", title_justify="left")
    for column in ("task of measure", "attempt", "outcome", "worker", "seconds"):
        attempts.add_column(column)
    for task in retried:
        for attempt in task.attempts:
            attempts.add_row(
                f"blocks {task.scope.partition_key if task.scope else ''}",
                str(attempt.attempt),
                attempt.outcome,
                attempt.worker_id,
                _seconds(attempt),
            )
    console.print()
    console.print(jobs)
    console.print(attempts)
    total = sum(EXPECTED.values())
    console.print(
        Panel(
            f"[green]All {total} tasks completed in {seconds:.0f} s.[/] Worker 1 was killed in the "
            f"middle of {len(retried)} task{'s' if len(retried) != 1 else ''}; "
            "the reaper noticed that the leases ran out, and worker 2 ran the next attempt. "
            "Nothing was lost, and nothing was done twice: whatever a dead worker still sends is "
            "refused, because its lease token is no longer current.",
            title="What happened",
            title_align="left",
        )
    )
    return str(retried[0].task_id) if retried else "TASK"


def _last_screen(home: Path, example: str, seconds: float) -> None:
    console.print(
        Panel(
            "[green]Version 1 answered until version 2 was whole[/], the switch was one "
            "transaction, and so was the way back: its data was still there, and nothing had to "
            f"be computed again. The whole demo took {seconds:.0f} s.",
            title="What happened",
            title_align="left",
        )
    )
    console.print("Look around; the state of the demo is kept until the next one:", style="bold")
    trace = f"TRACE_HOME={home} .venv/bin/trace"
    graph = f".venv/bin/trace dag graph {DAG_FILE.relative_to(HERE.parent)} --operators {OPERATORS}"
    for line in (
        f"{trace} status",
        f"{trace} task show {example}",
        f"{trace} task logs {example}",
        f"{trace} deploy list demo",
        graph,
    ):
        console.print(f"  {line}", soft_wrap=True)
    console.print(
        "Read on: README.md, docs/architecture.md, docs/state_machines.md", soft_wrap=True
    )


def _seconds(attempt: Attempt) -> str:
    if attempt.started_at is None:
        return "-"
    return f"{(attempt.ended_at - attempt.started_at).total_seconds():.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
