"""`trace dag`: DAG files, and the DAGs that are deployed from them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from trace_cli import backfills, changes, dag_file
from trace_cli.output import (
    AsJson,
    Cursor,
    ago,
    fields,
    hint,
    more,
    print_json,
    say,
    table,
)
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.work_answers import DagPage, DagVersion, DagVersionPage
from trace_core.kernel.errors import Invalid, NotFound

commands = typer.Typer(help="DAG files and deployed DAGs.", no_args_is_help=True)
commands.command()(dag_file.validate)
commands.command()(dag_file.graph)
commands.command()(changes.plan)
commands.command()(changes.apply)
commands.command()(changes.rollback)
commands.command()(backfills.backfill)

Dag = Annotated[str, typer.Argument(help="Name of the DAG.")]


@commands.command()
def pause(dag: Dag, as_json: AsJson = False) -> None:
    """Let nothing of a DAG be claimed until it is resumed; what runs goes on."""
    with connect() as api:
        done = api.pause_dag(dag)
    if as_json:
        print_json(done)
    else:
        say(f"Paused {dag}.")
        hint(f"Next: trace dag resume {dag}")


@commands.command()
def resume(dag: Dag, as_json: AsJson = False) -> None:
    """Let a paused DAG work again."""
    with connect() as api:
        done = api.resume_dag(dag)
    if as_json:
        print_json(done)
    else:
        say(f"Resumed {dag}.")


@commands.command(name="list")
def list_dags(as_json: AsJson = False) -> None:
    """List the deployed DAGs."""
    with connect() as api:
        dags = [each for page in each_page(lambda at: api.dags(cursor=at)) for each in page.dags]
    if as_json:
        print_json(DagPage(dags=dags, next=None))
    elif not dags:
        say("No DAG is deployed.")
        hint("Next: trace dag apply FILE")
    else:
        table(
            ("DAG", "Version", "Jobs", "State", "Active since"),
            [
                (
                    each.name,
                    each.version,
                    each.jobs,
                    "paused" if each.paused_at else "active",
                    ago(each.activated_at),
                )
                for each in dags
            ],
        )


@commands.command()
def show(dag: Dag, as_json: AsJson = False) -> None:
    """Show one DAG with its jobs."""
    with connect() as api:
        found = api.dag(dag)
    if as_json:
        print_json(found)
        return
    fields(
        [
            ("DAG", found.name),
            ("Version", found.version),
            ("State", "paused" if found.paused_at else "active"),
            ("Active since", ago(found.activated_at)),
            ("Made by", found.created_by),
            ("Deploy roles", ", ".join(found.deploy_roles) or None),
        ]
    )
    table(
        ("Job", "Operator", "Runtime", "Activation", "Source"),
        [
            (each.job, each.operator, each.runtime, each.activation, each.source_kind)
            for each in found.jobs
        ],
    )


@commands.command()
def versions(
    dag: Dag,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of a DAG, the newest first: which is active, which is being built."""
    with connect() as api:
        found = api.dag_versions(dag, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
    else:
        show_versions(found)


def show_versions(found: DagVersionPage) -> None:
    table(
        ("Version", "State", "Jobs", "Deployed", "By", "Last made active"),
        [
            (
                each.number,
                _state(each),
                each.jobs,
                ago(each.created_at),
                each.created_by,
                ago(each.activated_at),
            )
            for each in found.versions
        ],
    )
    more(found.next)


def _state(version: DagVersion) -> str:
    if version.active:
        return "active"
    if version.candidate:
        return "candidate"
    return "former" if version.activated_at else "never active"


@commands.command()
def source(
    dag: Dag,
    version: Annotated[
        int | None, typer.Option(min=1, max=999_999_999, help="Default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the file of a version as it was deployed."""
    with connect() as api:
        number = version if version is not None else api.dag(dag).version
        if number is None:
            raise NotFound(f"DAG {dag} has no active version.")
        found = api.dag_version(dag, number)
    if as_json:
        print_json(found)
    else:
        typer.echo(found.text, nl=not found.text.endswith("\n"))


@commands.command()
def trigger(
    dag: Dag,
    job: Annotated[str, typer.Argument(help="Name of a manual source job.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="FIELD=VALUE, such as start=1000 end=1999.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a manual source for something."""
    request = dict(_pair(each) for each in values or [])
    with connect() as api:
        done = api.trigger(dag, job, request)
    if as_json:
        print_json(done)
    else:
        say(f"Asked {dag}.{job}: request {done.number}.")
        hint(f"Next: trace task list --dag {dag}")


@commands.command(name="deploy-roles")
def deploy_roles(
    dag: Dag,
    roles: Annotated[
        list[str] | None, typer.Argument(help="Org roles; none: its creator and administrators.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which org roles may deploy, pause, resume and trigger a DAG."""
    with connect() as api:
        done = api.set_deploy_roles(dag, roles or [])
    if as_json:
        print_json(done)
    else:
        whom = ", ".join(done.deploy_roles) or "its creator and administrators only"
        say(f"{dag} is open to {whom}.")


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid(f"`{text}` is not FIELD=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
