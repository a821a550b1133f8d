"""The generated documents are the ones in docs/, and the JSON Schema agrees with the reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trace_core.dag.catalog import Catalog
from trace_core.dag.json_schema import as_text, dag_json_schema
from trace_core.dag.reference import dag_file_reference
from trace_core.operators.catalog import load_catalog

HERE = Path(__file__).parent
REFERENCE = HERE.parents[2] / "docs" / "reference"


def test_the_json_schema_in_docs_is_not_stale() -> None:
    generated = as_text(dag_json_schema(load_catalog([])))
    assert (REFERENCE / "dag.schema.json").read_text() == generated, (
        "run: python -m trace_core.dag.json_schema > docs/reference/dag.schema.json"
    )


def test_the_reference_page_in_docs_is_not_stale() -> None:
    assert (REFERENCE / "dag_file.md").read_text() == dag_file_reference(load_catalog([])), (
        "run: python -m trace_core.dag.reference > docs/reference/dag_file.md"
    )


def test_the_programs_print_what_docs_hold() -> None:
    for module, file in (("json_schema", "dag.schema.json"), ("reference", "dag_file.md")):
        printed = subprocess.run(
            [sys.executable, "-m", f"trace_core.dag.{module}"],
            capture_output=True,
            check=True,
            encoding="utf-8",
        ).stdout
        assert printed == (REFERENCE / file).read_text()


def accepts(schema: Any, value: Any, root: dict[str, Any]) -> bool:
    """The part of JSON Schema that our schema uses."""
    if schema is False:
        return False
    if "$ref" in schema:
        target: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        if not accepts(target, value, root):
            return False
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
        "integer": int, "number": (int, float),
    }  # fmt: skip
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(
            isinstance(value, kinds[name])
            and not (isinstance(value, bool) and name in ("integer", "number"))
            for name in names
        ):
            return False
    if "const" in schema and (value != schema["const"] or isinstance(value, bool)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return False
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
            return False
    if type(value) in (int, float) and not (
        schema.get("minimum", -(2**70)) <= value <= schema.get("maximum", 2**70)
    ):
        return False
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9):
            return False
        if schema.get("uniqueItems") and any(value.count(each) > 1 for each in value):
            return False
        if not all(accepts(schema.get("items", {}), each, root) for each in value):
            return False
    if isinstance(value, dict) and not accepts_map(schema, value, root):
        return False
    if "oneOf" in schema and sum(accepts(s, value, root) for s in schema["oneOf"]) != 1:
        return False
    if not all(accepts(each, value, root) for each in schema.get("allOf", [])):
        return False
    if "if" in schema:
        branch = "then" if accepts(schema["if"], value, root) else "else"
        return accepts(schema.get(branch, {}), value, root)
    return True


def accepts_map(schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any]) -> bool:
    if not set(schema.get("required", [])) <= value.keys():
        return False
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 10**9):
        return False
    for name, each in value.items():
        if not accepts(schema.get("propertyNames", {}), name, root):
            return False
        if name in schema.get("properties", {}):
            if not accepts(schema["properties"][name], each, root):
                return False
        elif "additionalProperties" in schema and not accepts(
            schema["additionalProperties"], each, root
        ):
            return False
    return True


def test_the_json_schema_accepts_the_example(example: str, catalog: Catalog) -> None:
    schema = dag_json_schema(catalog)
    assert accepts(schema, yaml.safe_load(example), schema)


@pytest.mark.parametrize(
    "name",
    [
        "strategy_bulk", "scaling_mode", "runtime_ecs", "runtime_not_allowed", "mode_on_job",
        "secrets_on_job", "udf_and_operator", "no_operator", "unknown_key", "name_with_dash",
        "source_with_inputs", "source_without_source", "reactive_without_inputs",
        "append_without_key", "replace_with_key", "timeout_over_platform", "attempts_boolean",
        "attempts_quoted", "config_missing", "config_absent", "config_unknown",
        "config_wrong_type", "config_nested", "input_job_and_dataset", "input_without_output",
        "publish_freshness", "schema_index_not_nested", "check_unknown_kind", "pool_empty",
        "version_2", "jobs_is_map", "jobs_empty", "check_repeated_column",
    ],
)  # fmt: skip
def test_the_json_schema_refuses_what_an_editor_can_see(name: str, catalog: Catalog) -> None:
    schema = dag_json_schema(catalog)
    assert not accepts(schema, yaml.safe_load((HERE / "bad" / f"{name}.yaml").read_text()), schema)


def test_every_key_and_setting_has_a_description(catalog: Catalog) -> None:
    schema = dag_json_schema(load_catalog([]))

    def check(part: Any, path: str) -> None:
        for name, each in part.get("properties", {}).items():
            if each is not False and "const" not in each and "enum" not in each:
                assert each.get("description"), f"{path}.{name}"
                check(each, f"{path}.{name}")

    check(schema, "")
    for name, config in schema["$defs"].items():
        check(config, name)
    assert json.loads(as_text(schema)) == schema
