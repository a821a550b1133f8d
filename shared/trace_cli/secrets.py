"""`trace secret`: put secrets in. Nothing here can read one back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.identity_answers import SecretPage
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, TooLarge

commands = typer.Typer(help="Secrets of the org: written, never read.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the secret, as worker pools name it.")]


@commands.command(name="set")
def set_secret(name: Name, as_json: AsJson = False) -> None:
    """Write a secret: its value is typed at a prompt, or comes from standard input."""
    value = _value()
    with connect() as api:
        done = api.set_secret(name, value)
    if as_json:
        print_json(done)
    else:
        say(f"{'Wrote' if done.created else 'Replaced'} the secret {name}.")


def _value() -> str:
    """Never an argument: those are seen by everybody on the machine and kept in histories."""
    if sys.stdin.isatty():
        value = str(typer.prompt("Value", hide_input=True, confirmation_prompt=True))
    else:
        data = sys.stdin.read(limits.SECRET_VALUE_MAX + 2)
        # `echo` and editors end their text with a line break that nobody means.
        value = data.removesuffix("\n").removesuffix("\r")
    if not value:
        raise Invalid("A secret has a value: type it, or send it to standard input.")
    if len(value.encode("utf-8", "surrogatepass")) > limits.SECRET_VALUE_MAX:
        raise TooLarge(f"A secret has at most {limits.SECRET_VALUE_MAX} bytes.")
    return value


@commands.command(name="list")
def list_secrets(as_json: AsJson = False) -> None:
    """List the names of secrets, with who wrote each when."""
    with connect() as api:
        pages = each_page(lambda at: api.secrets(cursor=at))
        secrets = [each for page in pages for each in page.secrets]
    if as_json:
        print_json(SecretPage(secrets=secrets, next=None))
    elif not secrets:
        say("There are no secrets.")
        hint("Next: trace secret set NAME")
    else:
        table(
            ("Secret", "Written", "By"),
            [(each.name, ago(each.updated_at), each.updated_by) for each in secrets],
        )


@commands.command()
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a secret; tasks whose slot names it fail from now on."""
    with connect() as api:
        done = api.remove_secret(name)
    if as_json:
        print_json(done)
    else:
        say(f"Removed the secret {name}.")
