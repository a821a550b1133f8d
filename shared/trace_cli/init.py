"""`trace init`: a folder to start from, with a DAG, two operators and their fixtures."""

from __future__ import annotations

import os
import re
import shlex
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from trace_cli.output import say
from trace_core.kernel.errors import Conflict, Invalid

_SUFFIX = ".tmpl"
_NOT_NAME = re.compile(r"[^a-z0-9]+")
_TAKEN = frozenset({"trace", "emr", "dags", "tests"})


def init(
    folder: Annotated[Path, typer.Argument(help="Where the project goes; it is made.")],
    force: Annotated[
        bool,
        typer.Option(help="Also into a folder that holds something; no file is replaced."),
    ] = False,
) -> None:
    """Make a project: a DAG, an operator in Python and one in PySpark, and fixtures of both."""
    target = folder.resolve()
    try:
        made, kept = _make(folder, target, force=force)
    except OSError as error:
        raise Invalid(f"{folder} cannot be made: {error.strerror} ({error.filename}).") from error
    for path in made:
        say(f"made  {path.relative_to(target)}")
    for path in kept:
        say(f"kept  {path.relative_to(target)}: it was there")
    say(
        "",
        "Next:",
        f"  cd {shlex.quote(str(folder))}",
        "  trace dag validate dags/transfers.dag.yaml",
        "  trace test",
        "",
        "README.md says what is what.",
    )


def _make(folder: Path, target: Path, *, force: bool) -> tuple[list[Path], list[Path]]:
    """The files that were made, and those that were there."""
    name = project_name(target)
    if target.exists() and not target.is_dir():
        raise Invalid(f"{folder} is a file; name a folder.")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise Conflict(
            f"{folder} is not empty: name another folder, or say --force to put the missing files "
            "beside what is there."
        )
    package = f"{name}_operators"
    wanted = {
        target / place.replace("package/", f"{package}/", 1): text
        for place, text in _files(resources.files("trace_cli") / "starter", "")
    }
    # Before the first file is written: half a project is worse than none.
    for parent in {parent for path in wanted for parent in path.parents}:
        if os.path.lexists(parent) and not parent.is_dir():
            raise Invalid(f"{parent} is a file, and a folder is needed there; name another folder.")
    made, kept = [], []
    for path, text in wanted.items():
        if os.path.lexists(path):
            kept.append(path)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # Never in the place of another one, nor through a link to elsewhere.
        with path.open("x", encoding="utf-8") as file:
            file.write(text.replace("@package@", package).replace("@name@", name))
        made.append(path)
    return made, kept


def project_name(folder: Path) -> str:
    """The folder's name as one of Python's."""
    name = _NOT_NAME.sub("_", folder.name.lower()).strip("_")
    if not name or name in _TAKEN:
        name = f"my_{name}".rstrip("_")
    return f"p_{name}" if name[0].isdigit() else name


def _files(folder: Traversable, place: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in sorted(folder.iterdir(), key=lambda one: one.name):
        if each.is_dir():
            found += _files(each, f"{place}{each.name}/")
        elif each.name.endswith(_SUFFIX):
            name = each.name.removesuffix(_SUFFIX).replace("gitignore", ".gitignore")
            found.append((place + name, each.read_text(encoding="utf-8")))
    return found
