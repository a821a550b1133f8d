"""`trace org`: an org and its first administrator, for whoever administers the database."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, print_json, say
from trace_cli.transport import local_app
from trace_core.kernel.errors import Conflict

commands = typer.Typer(help="Orgs.", no_args_is_help=True)


class HasAdmin(Conflict):
    """The org has an administrator, who adds members with `trace member add`."""

    code = "HasAdmin"


@commands.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the org.")],
    admin: Annotated[str, typer.Option(help="Subject (`sub`) of its first administrator.")],
    as_json: AsJson = False,
) -> None:
    """Make an org and its first administrator, straight in the state database."""
    with local_app() as app:
        org_id = app.orgs.ensure_org(name)
        user_id = app.orgs.first_admin(org_id, app.subject(admin))
    if user_id is None:
        raise HasAdmin
    if as_json:
        print_json({"org_id": str(org_id), "name": name, "admin": admin, "user_id": str(user_id)})
    else:
        say(f"{admin} administers {name}.")
