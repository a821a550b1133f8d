"""A project folder: `trace.toml` in it says which operators its DAGs may use.

Commands that run in the folder, or below it, find the project's own packages there.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from trace_core.kernel.errors import Invalid
from trace_core.settings import variable

FILE = "trace.toml"
_KEYS = {"operator_modules"}


def enter(start: Path | None = None) -> Path | None:
    """Take over what the project says, unless the environment has said so already."""
    found = find(start or Path.cwd())
    if found is None or os.environ.get(variable("operator_modules")):
        return None
    modules = _modules(found)
    root = str(found.parent)
    os.environ[variable("operator_modules")] = ",".join(modules)
    if root not in sys.path:
        sys.path.insert(0, root)
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if root not in paths:
        # Workers and Spark are processes of their own.
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
    return found.parent


def find(start: Path) -> Path | None:
    """The nearest one, upwards; another user's is left alone, since its code would run as ours."""
    for folder in (start, *start.parents):
        file = folder / FILE
        if file.is_file() and file.stat().st_uid == os.geteuid():
            return file
    return None


def _modules(file: Path) -> list[str]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from error
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise Invalid(
            f"{file}: there is no setting {', '.join(unknown)}; known: {', '.join(sorted(_KEYS))}"
        )
    modules = content.get("operator_modules", [])
    if not isinstance(modules, list) or not all(isinstance(each, str) for each in modules):
        raise Invalid(f"{file}: operator_modules must be a list of module names")
    return [str(file.parent / each) if each.endswith(".py") else each for each in modules]
