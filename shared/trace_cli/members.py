"""`trace member` and `trace role`: who belongs to the org, and what each may do."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import connect
from trace_client import Client, each_page
from trace_core.http.identity_answers import Member, MemberPage, RolePage
from trace_core.http.wire import Wire
from trace_core.identity.model import PlatformRole
from trace_core.kernel.errors import NotFound

commands = typer.Typer(help="Members of the org.", no_args_is_help=True)
role_commands = typer.Typer(help="Roles that the org makes for itself.", no_args_is_help=True)

Subject = Annotated[
    str, typer.Argument(help="The member's subject: what its tokens have as `sub`.")
]
Role = Annotated[str, typer.Argument(help="Name of an org role.")]


@commands.command(name="list")
def list_members(as_json: AsJson = False) -> None:
    """List the members with their roles."""
    with connect() as api:
        members = _members(api)
    if as_json:
        print_json(MemberPage(members=members, next=None))
        return
    table(
        ("Subject", "Name", "Role", "Org roles", "Since"),
        [
            (
                each.subject,
                each.name,
                each.role,
                ", ".join(each.org_roles) or None,
                ago(each.created_at),
            )
            for each in members
        ],
    )


@commands.command()
def add(
    subject: Subject,
    role: Annotated[
        PlatformRole, typer.Option(help="What the member may do.")
    ] = PlatformRole.READER,
    name: Annotated[str | None, typer.Option(help="A name to show beside the subject.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a member."""
    with connect() as api:
        done = api.add_member(subject, role, name)
    _print(done, f"{subject} is a member as {role.value}.", as_json)


@commands.command(name="set-role")
def set_role(
    subject: Subject,
    role: Annotated[PlatformRole, typer.Argument(help="What the member may do from now on.")],
    as_json: AsJson = False,
) -> None:
    """Give a member another platform role."""
    with connect() as api:
        done = api.set_member_role(user_id_of(api, subject), role)
    _print(done, f"{subject} is {role.value} now.", as_json)


@commands.command()
def remove(subject: Subject, as_json: AsJson = False) -> None:
    """Remove a member; its tokens open nothing here from this moment."""
    with connect() as api:
        done = api.remove_member(user_id_of(api, subject))
    _print(done, f"{subject} is no member any more.", as_json)


@role_commands.command(name="list")
def list_roles(as_json: AsJson = False) -> None:
    """List the org's roles."""
    with connect() as api:
        pages = each_page(lambda at: api.roles(cursor=at))
        roles = [each for page in pages for each in page.roles]
    if as_json:
        print_json(RolePage(roles=roles, next=None))
    elif not roles:
        say("The org has no roles of its own.")
        hint("Next: trace role add NAME")
    else:
        rows = [(each.role, each.members, ago(each.created_at)) for each in roles]
        table(("Role", "Members", "Since"), rows)


@role_commands.command(name="add")
def add_role(role: Role, as_json: AsJson = False) -> None:
    """Add a role to the org."""
    with connect() as api:
        done = api.add_role(role)
    line = f"Added {role}." if done.added else f"The org has the role {role} already."
    _print(done, line, as_json)


@role_commands.command(name="remove")
def remove_role(role: Role, as_json: AsJson = False) -> None:
    """Remove a role from the org and from its members."""
    with connect() as api:
        done = api.remove_role(role)
    _print(done, f"Removed {role}.", as_json)


@role_commands.command()
def grant(role: Role, subject: Subject, as_json: AsJson = False) -> None:
    """Give a role to a member."""
    with connect() as api:
        done = api.grant_role(role, user_id_of(api, subject))
    _print(done, f"{subject} has the role {role}.", as_json)


@role_commands.command()
def revoke(role: Role, subject: Subject, as_json: AsJson = False) -> None:
    """Take a role from a member."""
    with connect() as api:
        done = api.revoke_role(role, user_id_of(api, subject))
    _print(done, f"{subject} does not have the role {role} any more.", as_json)


def _members(api: Client) -> list[Member]:
    return [each for page in each_page(lambda at: api.members(cursor=at)) for each in page.members]


def user_id_of(api: Client, subject: str) -> UUID:
    for each in _members(api):
        if subject in (each.subject, str(each.user_id)):
            return each.user_id
    raise NotFound(f"No member {subject}; see trace member list.")


def _print(done: Wire, line: str, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(line)
