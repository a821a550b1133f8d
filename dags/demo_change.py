"""The second half of the demo: an edit of one job is planned, built, cut over and rolled back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rich.console import Console

from trace_cli.changes import deployed_line, show_report
from trace_cli.dags import show_versions
from trace_cli.deploy_progress import watch
from trace_cli.plan_view import show_plan
from trace_client import Client
from trace_core.http.deploy_answers import DeployDetail

EDIT = ("{ seconds: 0.1, slow_chunk: 55, slow_seconds: 4.0 }", "{ seconds: 0.25 }")
"""Of `measure`: its data becomes another one, and so does that of `summary`, which reads it."""


def change_a_job(api: Client, file: Path, home: Path, console: Console) -> DeployDetail:
    """Types what a person would type; answers the deploy of the edit."""
    edited = home / file.name
    text = file.read_text(encoding="utf-8").replace(*EDIT)
    edited.write_text(text, encoding="utf-8")
    console.print()
    console.rule("[bold]Then somebody edits a job[/]")
    _type(console, f"trace dag plan {edited}")
    planned = api.plan(text, str(edited))
    # Without the table of the estimate, which is wide; `trace dag plan` shows it.
    plan = dataclasses.replace(planned.plan(), total=None)
    show_plan(plan, console, file=str(edited))
    _type(console, f"trace dag apply {edited} --yes --wait")
    done = api.deploy(text, str(edited), expected_state=planned.state_token)
    console.print(deployed_line(done))
    ended = watch(api, done.dag, done.deploy or 0, out=console)
    _type(console, f"trace dag versions {done.dag}")
    show_versions(api.dag_versions(done.dag))
    _type(console, f"trace dag rollback {done.dag} --yes")
    show_report(api.rollback(done.dag))
    return ended


def _type(console: Console, command: str) -> None:
    console.print(f"\n[dim]$[/] [bold]{command}[/]", soft_wrap=True)
