"""`trace token`, `trace worker-token`, `trace hook`: what opens the platform's doors."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from trace_cli.output import AsJson, ago, fields, hint, print_json, say, table
from trace_cli.transport import connect, local_app
from trace_client import each_page
from trace_core.http.identity_answers import WorkerTokenPage
from trace_core.identity.model import PlatformRole
from trace_core.kernel.errors import Invalid

worker_commands = typer.Typer(help="Tokens of workers.", no_args_is_help=True)
hook_commands = typer.Typer(help="Webhook sources.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(help="Name of the DAG.")]
Job = Annotated[str, typer.Argument(help="Name of a webhook source job.")]


def token(
    user: Annotated[
        str | None, typer.Option(help="Whom it names; default: the person at this machine.")
    ] = None,
    role: Annotated[
        PlatformRole | None, typer.Option(help="What the user may do from now on.")
    ] = None,
    ttl: Annotated[
        float, typer.Option(min=1, max=86_400, help="How many seconds it lives.")
    ] = 3600,
) -> None:
    """Print a user token of the development issuer; a new user becomes a member (reader)."""
    with local_app() as app:
        typer.echo(app.development_token(user, role, timedelta(seconds=ttl)))


@worker_commands.command()
def create(
    name: Annotated[str, typer.Argument(help="Which workers it is for.")],
    expires_in_days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Without it, the token lives until revoked.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a worker token and show it once; two of one name may be valid at a time."""
    with connect() as api:
        made = api.create_worker_token(name, expires_in_days)
    if as_json:
        print_json(made)
    else:
        say(made.token)
        hint(f"Keep it: it is not shown again. Give it to workers as TRACE_WORKER_TOKEN; then "
             f"revoke the old one of {name}.")  # fmt: skip


@worker_commands.command(name="list")
def list_tokens(as_json: AsJson = False) -> None:
    """List worker tokens, as far as they can be known."""
    with connect() as api:
        pages = each_page(lambda at: api.worker_tokens(cursor=at))
        tokens = [each for page in pages for each in page.worker_tokens]
    if as_json:
        print_json(WorkerTokenPage(worker_tokens=tokens, next=None))
        return
    table(
        ("Token", "Name", "State", "Made", "Last used (to the hour)", "Expires"),
        [
            (
                each.token_id,
                each.name,
                "valid" if each.valid else "revoked" if each.revoked_at else "expired",
                ago(each.created_at),
                ago(each.last_used_at),
                ago(each.expires_at),
            )
            for each in tokens
        ],
    )


@worker_commands.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="Id of the token, as list shows it.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a worker token; it opens nothing after ten seconds."""
    with connect() as api:
        done = api.revoke_worker_token(token_id)
    if as_json:
        print_json(done)
    else:
        say(f"Revoked {token_id}.")


@hook_commands.command()
def show(dag: Dag, job: Job, as_json: AsJson = False) -> None:
    """Show the address of a webhook, and since when its secrets are valid."""
    with connect() as api:
        found = api.hook(dag, job)
    if as_json:
        print_json(found)
        return
    secrets = [
        f"made {ago(each.created_at)}"
        + (f", ends {ago(each.expires_at)}" if each.expires_at else "")
        for each in found.secrets
    ]
    fields([("path", found.path), ("secrets", "; ".join(secrets) or "none: it lets nobody in yet")])
    if not secrets:
        hint(f"Next: trace hook secret {dag} {job} --rotate")


@hook_commands.command()
def secret(
    dag: Dag,
    job: Job,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Make a new one; the one before it ends after a day.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a new secret of a webhook and show it once."""
    if not rotate:
        raise Invalid("A secret is shown once, when it is made: add --rotate for a new one.")
    with connect() as api:
        made = api.rotate_hook_secret(dag, job)
    if as_json:
        print_json(made)
    else:
        fields([("path", made.path), ("secret", made.secret)])
        hint("Keep it: it is not shown again. Calls are signed by Standard Webhooks.")
