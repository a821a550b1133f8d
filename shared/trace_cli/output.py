"""What people see: tables, relative times, one clear line for an error; JSON when they ask."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trace_core.dag.problems import Problem, render
from trace_core.http.work_answers import Scope
from trace_core.kernel.errors import TraceError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

Cursor = Annotated[
    str | None, typer.Option(help="Go on where a list ended: what it says as `next`.")
]

_WIDE = 1000

STYLES = {
    "Queued": "cyan",
    "Running": "blue",
    "Completed": "green",
    "Failed": "red",
    "Canceled": "yellow",
    "Building": "blue",
    "Checking": "blue",
    "Draining": "blue",
    "Paused": "yellow",
    "ChecksFailed": "red",
    "Done": "green",
}


class Figure(str):
    """A number in words, such as a size; it stands to the right as numbers do."""


def console(*, stderr: bool = False) -> Console:
    # Not highlighted: numbers and ids in a table are what they are, not syntax.
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def print_json(content: object) -> None:
    plain = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def say(*lines: str) -> None:
    out = console()
    for line in lines:
        out.print(Text(printable(line)))


def hint(line: str) -> None:
    """What to do next; for eyes only, so it stays out of pipes."""
    out = console()
    if out.is_terminal:
        out.print(Text(line, style="dim"))


def more(cursor: str | None) -> None:
    """How a list goes on."""
    if cursor is not None:
        hint(f"Next: the same with --cursor {cursor}")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Numbers to the right, states in their colour, nothing cut off."""
    # As wide as it needs to be: an id that is broken over lines cannot be copied.
    out = Console(highlight=False, width=_WIDE)
    found = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        cells = {type(row[index]) for row in rows} - {type(None)}
        numeric = bool(cells) and cells <= {int, Figure}
        found.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        found.add_row(*(_cell(value) for value in row))
    out.print(found)


def fields(pairs: Sequence[tuple[str, object]]) -> None:
    out = console()
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if value is not None:
            out.print(Text.assemble((f"{name:<{width}}  ", "dim"), _cell(value)))


def _cell(value: object) -> Text:
    if value is None:
        return Text("-", style="dim")
    text = printable(str(value))
    return Text(text, style=STYLES.get(text, ""))


def printable(text: str) -> str:
    """Without what would steer the terminal: logs and errors are written by anybody's code."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def ago(at: datetime | None, now: datetime | None = None) -> str | None:
    """A time as people say it: `3 min ago`, `in 20 s`."""
    if at is None:
        return None
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    amount = span(abs(seconds))
    return f"{amount} ago" if seconds >= 0 else f"in {amount}"


def span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def scope(value: Scope | None) -> str | None:
    if value is None:
        return None
    return str(value.cursor) if value.cursor is not None else value.partition_key


def print_error(error: TraceError) -> None:
    """One message; the problems of a DAG file in full."""
    out = console(stderr=True)
    details: dict[str, Any] = getattr(error, "details", {}) or error.fields
    out.print(Text.assemble(("error: ", "bold red"), printable(error.message)))
    for name in ("migration", "module"):
        if name in details:
            out.print(Text(printable(f"  {name}: {details[name]}")))
    for each in details.get("problems", []):
        if "reason" in each and "line" not in each:
            out.print(Text(f"  {each.get('field')}: {each['reason']}"))


def print_problems(problems: Sequence[Mapping[str, Any]], text: str) -> None:
    found = [Problem(**each) for each in problems]
    console(stderr=True).print(Text(render(found, text) + "\n"))
