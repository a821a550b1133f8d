"""`trace deploy`: deploys and rollbacks of a DAG, and the one that is under way."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.deploy_progress import left, work_line
from trace_cli.output import AsJson, Cursor, ago, fields, hint, more, print_json, say, span, table
from trace_cli.transport import connect
from trace_client import Client
from trace_core.http.deploy_answers import Deploy, DeployDetail, DeployState
from trace_core.kernel.errors import NotFound

commands = typer.Typer(help="Deploys and rollbacks of a DAG.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(help="Name of the DAG.")]


@commands.command(name="list")
def list_deploys(
    dag: Dag,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the deploys and rollbacks of a DAG, the newest first."""
    with connect() as api:
        found = api.deploys(dag, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return
    table(
        ("Deploy", "Kind", "Versions", "Status", "Began", "Took", "By", "Error"),
        [
            (
                each.number,
                each.kind,
                _versions(each),
                each.status,
                ago(each.created_at),
                _took(each),
                each.created_by,
                each.error,
            )
            for each in found.deploys
        ],
    )
    more(found.next)


@commands.command()
def show(
    dag: Dag,
    number: Annotated[int | None, typer.Argument(min=1, help="Default: the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one deploy: how far its build is, its checks, what it still has to do."""
    with connect() as api:
        found = api.deploy_detail(dag, number or _newest(api, dag))
    if as_json:
        print_json(found)
    else:
        print_deploy(found)


def print_deploy(found: DeployDetail) -> None:
    progress = found.progress
    outputs = [each.dataset or f"{each.job}.{each.output_index}" for each in found.moved]
    fields(
        [
            ("Deploy", f"{found.number} of {found.dag} ({found.kind})"),
            ("Versions", _versions(found)),
            ("Status", found.status),
            ("Error", found.error),
            ("Began", f"{ago(found.created_at)} by {found.created_by or 'nobody'}"),
            ("Built", ago(found.built_at)),
            ("Cut over", ago(found.cut_over_at)),
            ("Ended", ago(found.ended_at)),
            ("Moved", ", ".join(outputs) or None),
            ("Progress", _progress(found)),
            ("Live held", progress.held_tasks if progress else None),
        ]
    )
    if progress is not None and progress.jobs:
        table(
            ("Job", "Standing", "Done", "Expected", "Waiting", "Running", "Failed"),
            [
                (
                    each.job,
                    each.standing,
                    each.done,
                    "unknown" if each.expected is None else each.expected,
                    each.waiting,
                    each.running,
                    each.failed,
                )
                for each in progress.jobs
            ],
        )
    if found.checks:
        table(
            ("Check of", "Holds", "Message"),
            [(each.dataset, "yes" if each.holds else "no", each.message) for each in found.checks],
        )
    names = sorted({*found.behind, *found.canceled})
    if names:
        table(
            ("Job", "Events to catch up", "Tasks to cancel"),
            [(name, found.behind.get(name, 0), found.canceled.get(name, 0)) for name in names],
        )
    if found.error and found.ended_at is None:
        hint(f"Next: trace deploy resume {found.dag}, or trace deploy cancel {found.dag}")


@commands.command()
def pause(dag: Dag, as_json: AsJson = False) -> None:
    """Let the build that is under way rest; what is current goes on waiting for it."""
    with connect() as api:
        done = api.pause_deploy(dag)
    _say(done, "is paused", as_json)
    if not as_json:
        hint(f"Next: trace deploy resume {dag}")


@commands.command()
def resume(dag: Dag, as_json: AsJson = False) -> None:
    """Let a build go on that was paused, or whose checks failed."""
    with connect() as api:
        done = api.resume_deploy(dag)
    _say(done, "goes on", as_json)


@commands.command()
def cancel(dag: Dag, as_json: AsJson = False) -> None:
    """Give up the deploy that is under way; what was built is kept for another try."""
    with connect() as api:
        done = api.cancel_deploy(dag)
    _say(done, "is canceled", as_json)


def _say(done: DeployState, what: str, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(f"Deploy {done.deploy} of {done.dag} {what}.")


def _newest(api: Client, dag: str) -> int:
    found = api.deploys(dag, limit=1).deploys
    if not found:
        raise NotFound(f"DAG {dag} has not been deployed.")
    return found[0].number


def _versions(found: Deploy) -> str:
    if found.from_version is None:
        return f"first → {found.to_version}"
    return f"{found.from_version} → {found.to_version}"


def _took(found: Deploy) -> str | None:
    if found.ended_at is None:
        return None
    return span((found.ended_at - found.created_at).total_seconds())


def _progress(found: DeployDetail) -> str | None:
    progress = found.progress
    if progress is None:
        return None
    share = "unknown" if progress.share is None else f"{progress.share:.0%}"
    parts = [share, f"{span(progress.elapsed_seconds)} so far", left(found), work_line(found)]
    return ", ".join(part for part in parts if part)
