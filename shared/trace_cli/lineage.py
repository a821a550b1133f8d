"""`trace lineage`: what a scope of a dataset was made from, and by what."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from trace_cli.figures import of_scope, size, whole
from trace_cli.output import AsJson, ago, console, hint, print_json, printable, say
from trace_cli.transport import connect
from trace_core.http.dataset_answers import Lineage, LineageCommit, LineageInput, LineageTask

_DIGITS = 12
"""Of a fingerprint, as many as tell two apart; --json has it whole."""


def lineage(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    scope: Annotated[
        str | None, typer.Argument(help="A cursor, a range or a partition key; none: all of it.")
    ] = None,
    depth: Annotated[int, typer.Option(min=0, max=20, help="How many jobs upstream.")] = 3,
    number: Annotated[
        int | None, typer.Option("--at", min=0, help="As it was after that commit.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which commits made a scope, by which task and code, and from which inputs."""
    with connect() as api:
        found = api.lineage(dataset, scope=scope, depth=depth, number=number)
    if as_json:
        print_json(found)
    elif not found.commits:
        say(f"Nothing of {dataset} was committed for {scope or 'it'}.")
    else:
        _print(found)


def _print(found: Lineage) -> None:
    out = console()
    for each in found.commits:
        tree = Tree(_text(f"{found.dataset} {_committed(each)}", "bold"))
        _add_task(tree, each.task)
        out.print(tree)
    if found.truncated:
        hint("There is more: name a smaller scope, or give less --depth.")


def _committed(each: LineageCommit) -> str:
    figures = [
        f"commit {each.number}",
        None if each.row_count is None else f"{whole(each.row_count)} rows",
        size(each.bytes),
        ago(each.registered_at),
    ]
    return f"{of_scope(each.scope)}: " + ", ".join(figure for figure in figures if figure)


def _add_task(tree: Tree, task: LineageTask | None) -> None:
    if task is None:
        tree.add(_text("its history is gone", "dim"))
        return
    code = f"{task.operator}, code {task.fingerprint[:_DIGITS]}"
    branch = tree.add(_text(f"by {task.dag}.{task.job} ({code})"))
    branch.add(_text(f"task {task.task_id}, attempt {task.attempt or '-'}", "dim"))
    if task.invalidation:
        branch.add(_text(f"because: {task.invalidation}", "yellow"))
    for each in task.inputs:
        _add_input(branch, each)


def _add_input(tree: Tree, each: LineageInput) -> None:
    place = f"{each.dag}.{each.job}.{each.output_index}"
    asked = "all of it" if each.scope is None else of_scope(each.scope)
    branch = tree.add(_text(f"from {place}, {asked}, at commit {each.number}", "cyan"))
    for commit in each.commits:
        _add_task(branch.add(_text(_committed(commit))), commit.task)
    if each.producer is not None:
        _add_task(branch, each.producer)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
