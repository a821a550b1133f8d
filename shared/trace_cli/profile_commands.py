"""`trace profile`: the platforms that commands can talk to."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_cli import profiles
from trace_cli.output import AsJson, fields, hint, print_json, say, table
from trace_cli.profiles import LITE, Profile
from trace_core.kernel.errors import Invalid
from trace_core.settings import Settings

commands = typer.Typer(
    help="Platforms that commands talk to, with --profile NAME.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="Name of the profile.")]


@commands.command(name="list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles; `lite` is this machine, and the default."""
    found = [_lite(), *(_shown(each) for _, each in sorted(profiles.load().items()))]
    if as_json:
        print_json({"profiles": found})
    else:
        rows = [[each[name] for name in ("name", "url", "org", "token")] for each in found]
        table(("Profile", "URL", "Org", "Token from"), rows)


@commands.command()
def add(
    name: Name,
    url: Annotated[str, typer.Option(help="Address of the user API.")],
    org: Annotated[str | None, typer.Option(help="Name of the org, if you are in several.")] = None,
    token_command: Annotated[
        str | None, typer.Option(help="Command that prints a token; it is run without a shell.")
    ] = None,
    token_env: Annotated[str | None, typer.Option(help="Variable that holds a token.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File that holds a token.")] = None,
    token_lite: Annotated[
        Path | None, typer.Option(help="Home folder of a `trace dev`, whose issuer makes one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a profile. A token itself is never kept in it."""
    given: dict[str, Any] = {
        "command": shlex.split(token_command) if token_command else None,
        "env": token_env,
        "file": str(token_file.absolute()) if token_file else None,
        "lite": str(token_lite.absolute()) if token_lite else None,
    }
    source = {kind: value for kind, value in given.items() if value}
    if len(source) != 1:
        raise Invalid(
            "Say where the token comes from, in one way: --token-command, --token-env, "
            "--token-file or --token-lite."
        )
    made = profiles.add(name, url, org, source)
    if as_json:
        print_json(_shown(made))
    else:
        say(f"Added {name}.")
        hint(f"Next: trace --profile {name} status")


@commands.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one profile, and the file that it is in."""
    found = _lite() if name == LITE else _shown(profiles.find(name))
    file = None if name == LITE else str(profiles.path())
    if as_json:
        print_json({**found, "file": file})
    else:
        fields([(each, found[each]) for each in ("name", "url", "org", "token")] + [("file", file)])


@commands.command()
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a profile."""
    profiles.remove(name)
    if as_json:
        print_json({"name": name, "removed": True})
    else:
        say(f"Removed {name}.")


def _shown(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "url": profile.url,
        "org": profile.org,
        "token": str(profile.token),
    }


def _lite() -> dict[str, Any]:
    settings = Settings.from_env()
    token = "TRACE_USER_TOKEN" if settings.user_token else "the development issuer"
    return {"name": LITE, "url": None, "org": settings.org, "token": token}
