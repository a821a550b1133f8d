"""`trace member` and `trace role`: who belongs to the org, and what each may do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import Transport, connect, quoted
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
        found = api.call("GET", "/v1/members")
    if as_json:
        print_json(found)
        return
    table(
        ("Subject", "Name", "Role", "Org roles", "Since"),
        [
            (
                each["subject"],
                each["name"],
                each["role"],
                ", ".join(each["org_roles"]) or None,
                ago(each["created_at"]),
            )
            for each in found["members"]
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
        body = {"subject": subject, "role": role.value, "name": name}
        done = api.call("POST", "/v1/members", body=body)
    _print(done, f"{subject} is a member as {role.value}.", as_json)


@commands.command(name="set-role")
def set_role(
    subject: Subject,
    role: Annotated[PlatformRole, typer.Argument(help="What the member may do from now on.")],
    as_json: AsJson = False,
) -> None:
    """Give a member another platform role."""
    with connect() as api:
        path = f"/v1/members/{_user_id(api, subject)}"
        done = api.call("PUT", path, body={"role": role.value})
    _print(done, f"{subject} is {role.value} now.", as_json)


@commands.command()
def remove(subject: Subject, as_json: AsJson = False) -> None:
    """Remove a member; its tokens open nothing here from this moment."""
    with connect() as api:
        done = api.call("DELETE", f"/v1/members/{_user_id(api, subject)}")
    _print(done, f"{subject} is no member any more.", as_json)


@role_commands.command(name="list")
def list_roles(as_json: AsJson = False) -> None:
    """List the org's roles."""
    with connect() as api:
        found = api.call("GET", "/v1/roles")
    if as_json:
        print_json(found)
    elif not found["roles"]:
        say("The org has no roles of its own.")
        hint("Next: trace role add NAME")
    else:
        rows = [(each["role"], each["members"], ago(each["created_at"])) for each in found["roles"]]
        table(("Role", "Members", "Since"), rows)


@role_commands.command(name="add")
def add_role(role: Role, as_json: AsJson = False) -> None:
    """Add a role to the org."""
    with connect() as api:
        done = api.call("POST", "/v1/roles", body={"role": role})
    line = f"Added {role}." if done["added"] else f"The org has the role {role} already."
    _print(done, line, as_json)


@role_commands.command(name="remove")
def remove_role(role: Role, as_json: AsJson = False) -> None:
    """Remove a role from the org and from its members."""
    with connect() as api:
        done = api.call("DELETE", f"/v1/roles/{quoted(role)}")
    _print(done, f"Removed {role}.", as_json)


@role_commands.command()
def grant(role: Role, subject: Subject, as_json: AsJson = False) -> None:
    """Give a role to a member."""
    with connect() as api:
        done = api.call("PUT", f"/v1/roles/{quoted(role)}/members/{_user_id(api, subject)}")
    _print(done, f"{subject} has the role {role}.", as_json)


@role_commands.command()
def revoke(role: Role, subject: Subject, as_json: AsJson = False) -> None:
    """Take a role from a member."""
    with connect() as api:
        done = api.call("DELETE", f"/v1/roles/{quoted(role)}/members/{_user_id(api, subject)}")
    _print(done, f"{subject} does not have the role {role} any more.", as_json)


def _user_id(api: Transport, subject: str) -> str:
    for each in api.call("GET", "/v1/members")["members"]:
        if subject in (each["subject"], each["user_id"]):
            return str(each["user_id"])
    raise NotFound(f"No member {subject}; see trace member list.")


def _print(done: dict[str, Any], line: str, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(line)
