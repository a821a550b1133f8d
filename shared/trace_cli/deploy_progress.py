"""A build as it goes on: a bar with the time left; without a terminal, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from trace_cli.output import console, say
from trace_cli.plan_values import duration
from trace_client import Client
from trace_core.http.deploy_answers import DeployDetail

_FIRST, _SLOWEST, _GROWTH = 0.3, 3.0, 1.3
"""Seconds between two looks: a short build is seen, a long one does not use up the requests."""


def watch(
    api: Client,
    dag: str,
    number: int,
    *,
    quiet: bool = False,
    out: Console | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> DeployDetail:
    """Until it has ended, or waits for a person."""
    shown = _Silent() if quiet else _Bar(out or console())
    pause = _FIRST
    with shown:
        while True:
            found = api.deploy_detail(dag, number)
            shown.update(found)
            if stands(found):
                break
            sleep(pause)
            pause = min(_SLOWEST, pause * _GROWTH)
    if not quiet:
        say(last_line(found))
    return found


def stands(found: DeployDetail) -> bool:
    """Nothing more happens by itself."""
    failed = found.status == "Building" and found.error is not None
    return failed or found.status in ("Done", "Canceled", "ChecksFailed")


def last_line(found: DeployDetail) -> str:
    name = f"Deploy {found.number} of {found.dag}"
    if found.status == "Done":
        return f"{name} is done: version {found.to_version} is active."
    if found.status == "Canceled":
        return f"{name} was canceled: version {found.from_version} stays active."
    return (
        f"{name} stands still: {found.error}. See `trace deploy show {found.dag}`; then "
        f"`trace deploy resume {found.dag}` or `trace deploy cancel {found.dag}`."
    )


def work_line(found: DeployDetail) -> str:
    """What waits and runs, in a few words."""
    if found.progress is None:
        behind, canceled = sum(found.behind.values()), sum(found.canceled.values())
        if found.status != "Draining" or not behind + canceled:
            return ""
        return f"{behind} events to catch up, {canceled} tasks to cancel"
    jobs = found.progress.jobs
    parts = [
        f"{sum(each.waiting for each in jobs)} waiting",
        f"{sum(each.running for each in jobs)} running",
    ]
    failed = sum(each.failed for each in jobs)
    if failed:
        parts.append(f"{failed} failed")
    if found.progress.held_tasks:
        parts.append(f"{found.progress.held_tasks} live held")
    return ", ".join(parts)


def left(found: DeployDetail) -> str:
    if found.progress is None or found.progress.left_seconds is None:
        return ""
    if found.status != "Building":
        return ""
    return f"{duration(round(found.progress.left_seconds))} left"


def _share(found: DeployDetail) -> float | None:
    return 1.0 if found.progress is None else found.progress.share


class _Silent:
    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put away."""

    def update(self, found: DeployDetail) -> None:
        """Nobody looks."""


class _Bar(_Silent):
    def __init__(self, out: Console) -> None:
        self._out = out
        self._progress = Progress(
            TextColumn("{task.fields[status]:<8}"),
            BarColumn(30),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]:>12}"),
            TextColumn("[dim]{task.fields[work]}"),
            console=out,
        )
        self._task = self._progress.add_task("", total=1.0, status="", left="", work="")
        self._last: tuple[str, int] | None = None

    def __enter__(self) -> _Bar:
        if self._out.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._out.is_terminal:
            self._progress.stop()

    def update(self, found: DeployDetail) -> None:
        share = _share(found)
        if self._out.is_terminal:
            self._progress.update(
                self._task,
                completed=share or 0.0,
                total=None if share is None else 1.0,
                status=found.status,
                left=left(found),
                work=work_line(found),
            )
            return
        now = (found.status, int((share or 0.0) * 10))
        if now != self._last and not stands(found):
            self._last = now
            percent = "" if share is None else f"{share:.0%}"
            line = ", ".join(part for part in (percent, left(found), work_line(found)) if part)
            say(f"{found.status}: {line}" if line else found.status)
