"""`trace dag validate` and `trace dag graph`: what can be said about a DAG file by itself."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from trace_core.dag.catalog import Catalog
from trace_core.dag.drawing import WIDTH, draw
from trace_core.dag.load import load_dag
from trace_core.dag.mermaid import to_json, to_mermaid
from trace_core.dag.model import Dag
from trace_core.dag.problems import DagInvalid, Problem, code_frame, split_lines
from trace_core.kernel.errors import Invalid
from trace_core.operators.catalog import load_catalog
from trace_core.settings import Settings

commands = typer.Typer(help="Check and draw DAG files.", no_args_is_help=True)

Operators = Annotated[
    list[str] | None,
    typer.Option(
        "--operators",
        help="Module or .py file that defines OPERATORS; may be given several times.",
    ),
]


class GraphFormat(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


@commands.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="DAG files to check.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print problems as JSON.")] = False,
    operators: Operators = None,
) -> None:
    """Check DAG files; every problem is listed with its place and what to write instead."""
    catalog = _catalog(operators or [])
    reports = [_check(path, catalog) for path in files]
    if as_json:
        content = [
            {
                "file": str(path),
                "ok": not problems,
                "problems": [problem.as_json() for problem in problems],
            }
            for path, _, problems, _ in reports
        ]
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        for path, dag, problems, text in reports:
            if dag:
                _print_good(path, dag)
            else:
                _print_problems(path, problems, text)
    if any(problems for _, _, problems, _ in reports):
        raise typer.Exit(1)


@commands.command()
def graph(
    file: Annotated[Path, typer.Argument(help="DAG file to draw.")],
    format: Annotated[GraphFormat, typer.Option(help="How to draw it.")] = GraphFormat.TEXT,
    operators: Operators = None,
) -> None:
    """Draw the jobs of a DAG file and how data flows between them."""
    path, dag, problems, text = _check(file, _catalog(operators or []))
    if dag is None:
        _print_problems(path, problems, text)
        raise typer.Exit(1)
    match format:
        case GraphFormat.TEXT:
            typer.echo(draw(dag, WIDTH))
        case GraphFormat.MERMAID:
            typer.echo(to_mermaid(dag))
        case GraphFormat.JSON:
            typer.echo(json.dumps(to_json(dag), indent=2))


Report = tuple[Path, Dag | None, tuple[Problem, ...], str]


def _check(path: Path, catalog: Catalog) -> Report:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror or error}"
        return path, None, (Problem(str(path), 1, 1, "", reason, None, "unreadable"),), ""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return path, load_dag(data, filename=str(path), catalog=catalog), (), text
    except DagInvalid as error:
        return path, None, error.problems, text


def _catalog(operators: list[str]) -> Catalog:
    try:
        return load_catalog([*Settings.from_env().operator_modules, *operators])
    except Invalid as error:
        _console(stderr=True).print(Text(f"operators: {error.message}", style="bold red"))
        raise typer.Exit(1) from error


def _console(*, stderr: bool = False) -> Console:
    # Lines are never wrapped: file:line:column must stay clickable, and pipes have no width.
    return Console(stderr=stderr, soft_wrap=True, highlight=False)


def _print_good(path: Path, dag: Dag) -> None:
    edges = sum(1 for _ in dag.edges())
    counts = ", ".join(
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in (
            (len(dag.jobs), "job"),
            (edges, "edge"),
            (len(dag.publications), "publication"),
        )
    )
    _console().print(Text.assemble(("ok ", "bold green"), f"{path}: {counts}"))


def _print_problems(path: Path, problems: tuple[Problem, ...], text: str) -> None:
    console = _console()
    lines = split_lines(text)
    for problem in problems:
        where = f"{problem.file}:{problem.line}:{problem.column}: "
        field = f"{problem.field}: " if problem.field else ""
        console.print(Text.assemble((where, "bold"), (field, "cyan"), (problem.reason, "red")))
        frame = code_frame(problem, lines) if text else ""
        if frame:
            console.print(Text(frame, style="dim"))
        if problem.suggestion:
            console.print(Text.assemble(("  = ", "bold"), (problem.suggestion, "green")))
        console.print()
    count = len(problems)
    console.print(Text(f"{path}: {count} problem{'' if count == 1 else 's'}", style="bold red"))
