"""`trace db`: the schemas of both databases."""

from __future__ import annotations

import typer

from trace_cli.output import AsJson, ago, print_json, say, table
from trace_cli.transport import on_this_machine
from trace_core import bootstrap
from trace_core.bootstrap import App
from trace_core.settings import Settings

commands = typer.Typer(help="The state and the data database.", no_args_is_help=True)


def _settings() -> Settings:
    on_this_machine()
    return Settings.from_env()


@commands.command()
def migrate(as_json: AsJson = False) -> None:
    """Apply the migrations that are missing, of each database all or nothing."""
    settings = _settings()
    with bootstrap.running(App(settings)) as app:
        applied = app.migrate()
        first = settings.first_admin
        if first is not None:
            app.orgs.first_admin(app.own_org, app.subject(first))
    if as_json:
        print_json({"applied": applied})
    elif applied:
        say(*(f"applied {name}" for name in applied))
    else:
        say("Nothing to do: every migration is applied.")


@commands.command()
def status(as_json: AsJson = False) -> None:
    """List the migrations and when each was applied."""
    with bootstrap.running(App(_settings())) as app:
        found = app.migrations()
    rows = [
        {
            "database": database,
            "number": each.number,
            "name": each.name,
            "applied_at": each.applied_at.isoformat() if each.applied_at else None,
        }
        for database, each in found
    ]
    if as_json:
        print_json({"migrations": rows})
    else:
        table(
            ("Database", "Number", "Name", "Applied"),
            [
                (database, each.number, each.name, ago(each.applied_at) or "no")
                for database, each in found
            ],
        )
