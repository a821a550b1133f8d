"""The reference of the user API: `python -m trace_core.http.reference` writes both forms of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_core.http.error_codes import ERRORS, INTERNAL, OF_TASKS
from trace_core.http.openapi import document, meaning

FOLDER = Path("docs/reference")
_MADE = "<!-- Made by `python -m trace_core.http.reference`; do not edit. -->"
_METHODS = ("get", "post", "put", "delete")


def openapi_file() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def page() -> str:
    found = document()
    parts = [
        "# The user API",
        "",
        _MADE,
        "",
        "The same as [openapi.json](openapi.json), for people. How to call it is in "
        "[the user API](../user_api.md).",
        "",
    ]
    for tag in found["tags"]:
        parts += [f"## {tag['name']}", ""]
        for path, methods in found["paths"].items():
            for method in _METHODS:
                if method in methods and tag["name"] in methods[method]["tags"]:
                    parts += _operation(method, path, methods[method], found)
    parts += ["## Error codes", "", *_codes()]
    return "\n".join(parts).rstrip() + "\n"


def _operation(
    method: str, path: str, operation: dict[str, Any], found: dict[str, Any]
) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    yield f"{operation['summary']} {operation.get('description', '')}".strip()
    yield ""
    rows = [_parameter(each) for each in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body:
        schema = _resolved(body["content"]["application/json"]["schema"], found)
        required = schema.get("required", ())
        rows += [
            _row(name, "body", each, found, name in required)
            for name, each in schema.get("properties", {}).items()
        ]
    if rows:
        yield "| name | in | form | meaning |"
        yield "|---|---|---|---|"
        yield from rows
        yield ""
    for status, answer in operation["responses"].items():
        if status < "300":
            schema = answer["content"]["application/json"]["schema"]
            name = schema.get("$ref", "").rsplit("/", 1)[-1]
            fields = _resolved(schema, found).get("properties", {})
            listed = ", ".join(f"`{each}`" for each in fields) or "a JSON object"
            yield f"- {status}{f' {name}' if name else ''}: {listed}"
    refused = [status for status in operation["responses"] if status >= "300"]
    yield f"- refused: {', '.join(refused)}"
    yield ""


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    said = {**schema, "description": parameter.get("description", "")}
    return _row(parameter["name"], parameter["in"], said, {}, parameter["required"])


def _row(
    name: str, place: str, schema: dict[str, Any], found: dict[str, Any], required: bool
) -> str:
    said = schema.get("description", "")
    if not required and schema.get("default") is not None:
        said = f"{said} Default `{json.dumps(schema['default'])}`.".strip()
    form = _form(schema, found).replace("|", "\\|")
    return f"| `{name}`{' (required)' if required else ''} | {place} | {form} | {said} |"


def _form(schema: dict[str, Any], found: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _form(_resolved(schema, found), found) if found else schema["$ref"].split("/")[-1]
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each != {"type": "null"}]
        return " or ".join(_form(each, found) for each in kinds)
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kind = str(schema.get("format") or schema.get("type") or "any")
    bounds = [str(schema[each]) for each in ("minimum", "maximum") if each in schema]
    if "pattern" in schema:
        return f"{kind} `{schema['pattern']}`"
    return f"{kind} {' to '.join(bounds)}".strip()


def _resolved(schema: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    named: dict[str, Any] = found["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return named


def _codes() -> Iterator[str]:
    yield "Codes are stable: none is renamed or given another meaning. `message` may change."
    yield ""
    yield "| code | status | meaning | answered to |"
    yield "|---|---|---|---|"
    rows = [
        (each.status, each.code, meaning(each).replace("\n", " "), each in OF_TASKS)
        for each in ERRORS
    ]
    rows.append((INTERNAL[1], INTERNAL[0], INTERNAL[2], False))
    for status, code, said, of_tasks in sorted(rows):
        whom = "workers and tasks" if of_tasks else "everybody"
        yield f"| `{code}` | {status} | {said} | {whom} |"


PAGES = {"openapi.json": openapi_file, "user_api.md": page}


def main() -> None:
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
