"""`trace dag`: DAG files, and the DAGs that are deployed from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_cli import dag_file
from trace_cli.output import AsJson, ago, hint, print_json, print_problems, say, table
from trace_cli.transport import ApiError, Transport, connect, quoted
from trace_core.kernel.errors import Invalid

commands = typer.Typer(help="DAG files and deployed DAGs.", no_args_is_help=True)
commands.command()(dag_file.validate)
commands.command()(dag_file.graph)

Dag = Annotated[str, typer.Argument(help="Name of the DAG.")]


@commands.command()
def deploy(
    file: Annotated[Path, typer.Argument(help="DAG file to deploy.")], as_json: AsJson = False
) -> None:
    """Deploy a DAG file: its jobs begin to work."""
    with connect() as api:
        done = deploy_file(api, file)
    if as_json:
        print_json(done)
    elif done["created"]:
        say(deployed_line(done))
        for job in done["webhooks"]:
            say(
                f"{job} can be called once it has a secret: "
                f"trace hook secret {done['dag']} {job} --rotate"
            )
        hint(f"Next: trace status, or trace task list --dag {done['dag']}")
    else:
        say(deployed_line(done))


def deploy_file(api: Transport, file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{file} is not UTF-8 text.") from error
    try:
        return api.call("POST", "/v1/dags", body={"text": text, "filename": str(file)[-500:]})
    except ApiError as error:
        if error.details.get("code") == "DagInvalid":
            print_problems(error.details.get("problems", []), text)
        raise


def deployed_line(done: dict[str, Any]) -> str:
    count = len(done["jobs"])
    if not done["created"]:
        return f"{done['dag']} version {done['version']} is deployed already; nothing changed."
    jobs = "1 job" if count == 1 else f"{count} jobs"
    return f"Deployed {done['dag']} version {done['version']} with {jobs}."


@commands.command()
def pause(dag: Dag, as_json: AsJson = False) -> None:
    """Let nothing of a DAG be claimed until it is resumed; what runs goes on."""
    with connect() as api:
        done = api.call("POST", f"/v1/dags/{quoted(dag)}/pause")
    if as_json:
        print_json(done)
    else:
        say(f"Paused {dag}.")
        hint(f"Next: trace dag resume {dag}")


@commands.command()
def resume(dag: Dag, as_json: AsJson = False) -> None:
    """Let a paused DAG work again."""
    with connect() as api:
        done = api.call("POST", f"/v1/dags/{quoted(dag)}/resume")
    if as_json:
        print_json(done)
    else:
        say(f"Resumed {dag}.")


@commands.command(name="list")
def list_dags(as_json: AsJson = False) -> None:
    """List the deployed DAGs."""
    with connect() as api:
        dags = api.call("GET", "/v1/dags")["dags"]
    if as_json:
        print_json({"dags": dags})
    elif not dags:
        say("No DAG is deployed.")
        hint("Next: trace dag deploy FILE")
    else:
        table(
            ("DAG", "Version", "Jobs", "State", "Active since"),
            [
                (
                    each["name"],
                    each["version"],
                    each["jobs"],
                    "paused" if each["paused_at"] else "active",
                    ago(each["activated_at"]),
                )
                for each in dags
            ],
        )


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
        path = f"/v1/dags/{quoted(dag)}/jobs/{quoted(job)}/trigger"
        done = api.call("POST", path, body={"request": request})
    if as_json:
        print_json(done)
    else:
        say(f"Asked {dag}.{job}: request {done['number']}.")
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
        path = f"/v1/dags/{quoted(dag)}/deploy-roles"
        done = api.call("PUT", path, body={"roles": roles or []})
    if as_json:
        print_json(done)
    else:
        whom = ", ".join(done["deploy_roles"]) or "its creator and administrators only"
        say(f"{dag} is open to {whom}.")


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid(f"`{text}` is not FIELD=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
