"""`trace audit`: who did what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import connect


def audit(
    actor: Annotated[str | None, typer.Option(help="Subject, name or id of who did it.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Such as dag.deploy, or dag for all of them.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="What it was done to.")] = None,
    since: Annotated[str | None, typer.Option(help="A time such as 2026-01-15T12:00:00Z.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many.")] = 50,
    before: Annotated[str | None, typer.Option(help="The last id of the page before.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show who did what, the newest first."""
    query = {
        "actor": actor,
        "action": action,
        "target": target,
        "since": since,
        "limit": limit,
        "before": before,
    }
    with connect() as api:
        found = api.call("GET", "/v1/audit", query=query)
    if as_json:
        print_json(found)
        return
    entries = found["entries"]
    if not entries:
        say("Nothing found.")
        return
    table(
        ("When", "Who", "What", "To", "Detail"),
        [
            (ago(each["at"]), _who(each), each["action"], each["target"], _detail(each["detail"]))
            for each in entries
        ],
    )
    if len(entries) == limit:
        hint(f"Next: trace audit --before {entries[-1]['audit_id']}")


def _who(entry: dict[str, Any]) -> str:
    return str(entry["actor_name"] or entry["actor_id"])


def _detail(detail: dict[str, Any]) -> str | None:
    def shown(value: object) -> str:
        if isinstance(value, list):
            return ",".join(str(each) for each in value) or "-"
        return str(value)

    return " ".join(f"{name}={shown(value)}" for name, value in detail.items()) or None
