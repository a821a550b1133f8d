"""The reference page of the DAG file, made from the grammar and the operator catalog.

python -m trace_core.dag.reference > docs/reference/dag_file.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.containers import ListOf, MapOf, Object
from trace_core.dag.grammar import DAG
from trace_core.dag.named_catalog import named_catalog
from trace_core.dag.shapes import Shape
from trace_core.dag.words import COLUMN, ENV_NAME, NAME

_INTRODUCTION = """\
# The DAG file

<!-- Generated: python -m trace_core.dag.reference > docs/reference/dag_file.md -->

A DAG is one YAML file. These are all keys of version 1; anything else is refused, with the line,
the reason and what to write instead (`trace dag validate FILE`). Not read at all: anchors,
aliases, merge keys, tags, several documents in a file, keys that are not text. `dag.schema.json`
in this folder gives the same rules to editors.

Names are lower-case letters, digits and `_`, start with a letter and have at most 128 characters.
"""

_FILTERS = """\
## Filters (`where`)

A map means that every field has the given value, or one of a list of values (`null`: it is empty):

```yaml
where: { chain_id: 10143, severity: [critical, warning] }
```

Text is a predicate: `=` `!=` `<>` `<` `<=` `>` `>=`, `[NOT] IN (…)`, `[NOT] BETWEEN … AND …`,
`IS [NOT] NULL`, `AND`, `OR`, `NOT` and parentheses. A field stands on the left, a literal on the
right: `'text'` (a quote inside is written twice), a number, `TRUE` or `FALSE`.

```yaml
where: "severity = 'critical' AND (chain_id = 10143 OR amount >= 1000000000000000000000)"
```
"""


def dag_file_reference(catalog: Catalog) -> str:
    sections = [_INTRODUCTION]
    for path, part in _objects("", DAG):
        sections.append(_section(path, part))
    sections.append(_FILTERS)
    sections.append(_operators(catalog))
    return "\n".join(sections)


def _objects(path: str, shape: Shape) -> Iterator[tuple[str, Object]]:
    """Every object of the grammar with the path that leads to it, top first."""
    match shape:
        case Object():
            yield path, shape
            for name, key in shape.keys.items():
                yield from _objects(f"{path}.{name}" if path else name, key.shape)
        case ListOf():
            yield from _objects(path if shape.single else f"{path}[]", shape.item)
        case MapOf():
            yield from _objects(f"{path}.<name>", shape.item)


def _section(path: str, part: Object) -> str:
    lines = [
        f"## `{path}`" if path else "## Top level",
        "",
        "| key | value | required | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, key in part.keys.items():
        required = "yes" if key.required else ""
        value = _value(key.shape)
        lines.append(
            f"| `{name}` | {value} | {required} | {key.default or ''} | {key.description} |"
        )
    if part.refused:
        lines += ["", "Refused by name:", ""]
        lines += [
            f"- `{name}` {refusal.reason}. Instead: {refusal.suggestion}."
            for name, refusal in part.refused.items()
        ]
    return "\n".join([*lines, ""])


def _value(shape: Shape) -> str:
    """A short form of the rule; each map has a section of its own."""
    match shape:
        case Object():
            return "map, see below"
        case ListOf():
            listed = f"list of {_value(shape.item)}"
            return f"{_value(shape.item)}, or {listed}" if shape.single else listed
        case MapOf():
            return f"map of {_value(shape.key)} to {_value(shape.item)}"
    names = {id(NAME): "name", id(COLUMN): "column name", id(ENV_NAME): "environment variable"}
    return names.get(id(shape)) or shape.describe()


def _operators(catalog: Catalog) -> str:
    lines = ["## Built-in operators", ""]
    for _, spec in sorted(catalog.items()):
        lines += _operator(spec)
    return "\n".join(lines).rstrip() + "\n"


def _operator(spec: OperatorSpec) -> list[str]:
    kinds = ", ".join(sorted(spec.source_kinds))
    activation = " or ".join(sorted(spec.activations)) + (f" ({kinds})" if kinds else "")
    lines = [
        f"### `{spec.name}`",
        "",
        f"{spec.description} Activation: {activation}. Runtimes: "
        f"{', '.join(sorted(spec.runtimes))}. It has {spec.outputs_rule()}.",
        "",
    ]
    properties: dict[str, Any] = spec.config.model_json_schema().get("properties", {})
    if not properties:
        return [*lines, "No settings.", ""]
    lines += ["| setting | type | default | changes the data | meaning |", "|---|---|---|---|---|"]
    for name, schema in properties.items():
        kind = schema.get("type") or "value"
        if "enum" in schema:
            kind = " or ".join(f"`{word}`" for word in schema["enum"])
        default = f"`{schema['default']}`" if "default" in schema else "required"
        affects = "yes" if name in spec.affects else "no"
        meaning = schema.get("description", "")
        lines.append(f"| `{name}` | {kind} | {default} | {affects} | {meaning} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.stdout.write(dag_file_reference(named_catalog(sys.argv[1:])))
