"""`trace audit`: who did what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trace_cli.output import AsJson, Cursor, ago, more, print_json, say, table
from trace_cli.transport import connect
from trace_core.http.identity_answers import AuditEntry


def audit(
    actor: Annotated[str | None, typer.Option(help="Subject, name or id of who did it.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Such as dag.deploy, or dag for all of them.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="What it was done to.")] = None,
    since: Annotated[str | None, typer.Option(help="A time such as 2026-01-15T12:00:00Z.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """Show who did what, the newest first."""
    with connect() as api:
        found = api.audit(
            actor=actor, action=action, target=target, since=since, limit=limit, cursor=cursor
        )
    if as_json:
        print_json(found)
        return
    if not found.entries:
        say("Nothing found.")
        return
    table(
        ("When", "Who", "What", "To", "Detail"),
        [
            (ago(each.at), _who(each), each.action, each.target, _detail(each.detail))
            for each in found.entries
        ],
    )
    more(found.next)


def _who(entry: AuditEntry) -> str:
    return entry.actor_name or entry.actor_id


def _detail(detail: dict[str, Any]) -> str | None:
    def shown(value: object) -> str:
        if isinstance(value, list):
            return ",".join(str(each) for each in value) or "-"
        return str(value)

    return " ".join(f"{name}={shown(value)}" for name, value in detail.items()) or None
