"""The code that EMR Serverless runs: an entry point, and a folder that becomes a zip beside it.

Spark there has the standard library and PySpark, so that of the platform only what the jobs import
goes in, followed from file to file; nothing is imported to find it. A project's own operators join
them whole.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from infra.node import ROOT

ENTRY_POINT = ROOT / "emr_jobs" / "main.py"
_SOURCES = {"emr_jobs": ROOT, "trace_core": ROOT / "shared"}
"""The packages that are followed, and where each lies."""
_NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc")


def copy_code(target: Path, own: Iterable[Path] = ()) -> None:
    """Everything under the import paths that it has everywhere."""
    for name, file in sorted(modules().items()):
        place = target / file.relative_to(_SOURCES[name.partition(".")[0]])
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    for package in own:
        if package.name in _SOURCES:
            raise ValueError(f"{package}: a package of the platform has this name")
        shutil.copytree(package, target / package.name, ignore=_NOT_CODE)


def modules() -> dict[str, Path]:
    """Each module that a run may import, from the entry point and the operators on."""
    operators = sorted((ROOT / "emr_jobs" / "operators").glob("*.py"))
    pending = [_name(file) for file in (ENTRY_POINT, *operators)]
    found: dict[str, Path] = {}
    while pending:
        name = pending.pop()
        file = _file(name)
        if file is None or name in found:
            continue
        found[name] = file
        # A package is imported before what is in it.
        pending += [name.rpartition(".")[0], *_imports(file)]
    return found


def _name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _file(name: str) -> Path | None:
    source = _SOURCES.get(name.partition(".")[0])
    if source is None:
        return None
    place = source.joinpath(*name.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file if file.is_file() else None


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(str(module), names, 0):
                # What is imported from a package may be a module of it.
                yield from (module, *(f"{module}.{each.name}" for each in names))
