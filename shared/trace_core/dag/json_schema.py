"""The JSON Schema of DAG files for editors, made from the grammar and the operator catalog.

python -m trace_core.dag.json_schema > docs/reference/dag.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.grammar import DAG
from trace_core.dag.named_catalog import named_catalog

SCHEMA_ID = "https://trace.invalid/schemas/dag.v1.json"


def dag_json_schema(catalog: Catalog) -> dict[str, Any]:
    """Draft 2020-12. Editors learn the keys, words and bounds; cross-references stay with us."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Trace DAG file, version 1",
        **DAG.json_schema(),
    }
    job = schema["properties"]["jobs"]["items"]
    operator = job["properties"]["operator"]
    operator["description"] += f" Built in: {', '.join(sorted(catalog))}."
    operator["examples"] = sorted(catalog)
    schema["$defs"] = {
        f"config_{spec.name}": _config_schema(spec) for _, spec in sorted(catalog.items())
    }
    job["oneOf"] = [{"required": ["operator"]}, {"required": ["udf"]}]
    job["allOf"] = [
        *_activation_rules(),
        *(_operator_rule(spec) for _, spec in sorted(catalog.items())),
    ]
    return schema


def as_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _config_schema(spec: OperatorSpec) -> dict[str, Any]:
    inner = f"#/$defs/config_{spec.name}/$defs/{{model}}"
    schema = spec.config.model_json_schema(ref_template=inner)
    schema["title"] = f"Settings of {spec.name}"
    schema["description"] = spec.description
    return schema


def _activation_rules() -> list[dict[str, Any]]:
    def when(activation: str, required: list[str], forbidden: list[str]) -> dict[str, Any]:
        return {
            "if": {"properties": {"activation": {"const": activation}}, "required": ["activation"]},
            "then": {
                "required": required,
                "properties": dict.fromkeys(forbidden, False),
            },
        }

    return [
        when("source", ["source"], ["inputs", "execution_strategy", "backpressure"]),
        when("reactive", ["inputs", "execution_strategy"], ["source", "bootstrap"]),
        {
            "if": {
                "properties": {"update_strategy": {"const": "append"}},
                "required": ["update_strategy"],
            },
            "then": {"required": ["unique_key"]},
            "else": {"properties": {"unique_key": False}},
        },
    ]


def _operator_rule(spec: OperatorSpec) -> dict[str, Any]:
    then: dict[str, Any] = {
        "properties": {
            "config": {"$ref": f"#/$defs/config_{spec.name}"},
            "runtime": {"enum": sorted(spec.runtimes)},
            "activation": {"enum": sorted(spec.activations)},
        }
    }
    if any(field.is_required() for field in spec.config.model_fields.values()):
        then["required"] = ["config"]
    return {
        "if": {"properties": {"operator": {"const": spec.name}}, "required": ["operator"]},
        "then": then,
    }


if __name__ == "__main__":
    sys.stdout.write(as_text(dag_json_schema(named_catalog(sys.argv[1:]))))
