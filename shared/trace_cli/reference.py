"""The reference pages of commands and settings: `python -m trace_cli.reference` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer

from trace_cli.main import app
from trace_core.settings import Settings, variable

FOLDER = Path("docs/reference")
_KINDS = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
_MADE = "<!-- Made by `python -m trace_cli.reference`; do not edit. -->"


def cli_page() -> str:
    parts = ["# The command `trace`", "", _MADE, ""]
    root = typer.main.get_command(app)
    parts += ["Before the name of any command:", "", *_parameters("trace", root)]
    for path, command in sorted(_commands(root, "trace"), key=lambda each: each[0]):
        parts += [f"## `{path}`", "", (command.help or "").strip(), ""]
        parts += _parameters(path, command)
    return "\n".join(parts).rstrip() + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(child, f"{path} {name}")


def _parameters(path: str, command: Any) -> list[str]:
    shown = [each for each in command.params if each.name != "help"]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    names = " ".join(_argument(each) for each in arguments)
    usage = " ".join(part for part in (path, names, "[OPTIONS]" if options else "") if part)
    parts = ["```", usage, "```", ""]
    if shown:
        parts += ["| name | default | meaning |", "|---|---|---|"]
        parts += [
            f"| `{_label(each)}` | {_default(each)} | {(each.help or '').strip()} |"
            for each in shown
        ]
        parts.append("")
    return parts


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    name = f"{name}..." if parameter.nargs == -1 else name
    return name if parameter.required else f"[{name}]"


def _label(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _argument(parameter)
    name = str(parameter.opts[0])
    if parameter.is_flag:
        return name
    return f"{name} {_kind(parameter.type_descriptor.annotation)}"


def _kind(annotation: Any) -> str:
    inner = next(iter(get_args(annotation)), annotation)
    if isinstance(inner, type) and issubclass(inner, Enum):
        # A bar would end the cell of the table.
        return " or ".join(str(each.value) for each in inner)
    return _KINDS.get(inner, "VALUE")


def _default(parameter: Any) -> str:
    if parameter.default is None or parameter.default is False or parameter.required:
        return ""
    value = getattr(parameter.default, "value", parameter.default)
    return f"`{value}`" if isinstance(value, str | int | float) else ""


def settings_page() -> str:
    parts = ["# Settings", "", _MADE, "", "Environment variables, read once at the start.", ""]
    parts += ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        parts.append(f"| `{variable(name)}` | {_shown(field.default)} | {field.description} |")
    return "\n".join(parts) + "\n"


def _shown(default: object) -> str:
    if default is None or default == ():
        return ""
    return f"`{getattr(default, 'value', default)}`"


PAGES = {"cli.md": cli_page, "settings.md": settings_page}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
