"""Operator config: judged by the operator's own pydantic model, reported at the exact line."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.problems import Path, did_you_mean, nearest, shown
from trace_core.dag.shapes import WRONG

_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "bool_type": "`true` or `false`",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
}


def check_config(job: Record, spec: OperatorSpec, found: Findings) -> None:
    """Report everything the operator's model refuses; the job keeps the values with defaults."""
    if job.has("config") and (job.get("config") is None or job.get("config") is WRONG):
        return
    given = job.get("config") or {}
    try:
        config = read_config(spec, given)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=True)
        # A misspelt setting is one mistake: what it stands for is not missing as well.
        meant = {
            nearest(str(each["loc"][-1]), spec.config.model_fields)
            for each in errors
            if each["type"] == "extra_forbidden" and len(each["loc"]) == 1
        }
        for each in errors:
            if each["type"] != "missing" or each["loc"][-1] not in meant:
                _report(each, job, spec, found)
        return
    job.values["config"] = _settled(config, config.model_dump(mode="json"))


def fits_model(job: Record, spec: OperatorSpec) -> bool:
    """Whether the job's config, as it is by now, is one that the operator's model takes."""
    config = job.get("config")
    if config is None and job.has("config"):
        return False
    try:
        read_config(spec, config or {})
    except (ValidationError, TypeError):
        return False
    return True


def read_config(spec: OperatorSpec, given: dict[str, Any]) -> BaseModel:
    # As JSON: strict types then still take a list for a tuple and text for a duration.
    return spec.config.model_validate_json(json.dumps(given))


def _settled(value: Any, plain: Any) -> Any:
    """`plain` with its sets in one order: theirs differs from process to process."""
    if isinstance(value, set | frozenset):
        return sorted(plain, key=json.dumps)
    if isinstance(value, BaseModel):
        return {name: _settled(getattr(value, name, None), each) for name, each in plain.items()}
    if isinstance(value, dict) and isinstance(plain, dict) and len(value) == len(plain):
        pairs = zip(value.values(), plain.items(), strict=True)
        return {name: _settled(each, json_value) for each, (name, json_value) in pairs}
    if isinstance(value, list | tuple) and isinstance(plain, list):
        return [_settled(each, json_value) for each, json_value in zip(value, plain, strict=True)]
    return plain


def _report(error: Any, job: Record, spec: OperatorSpec, found: Findings) -> None:
    path: Path = (*job.path, "config", *error["loc"])
    kind, given = error["type"], error.get("input")
    if kind == "missing":
        name = error["loc"][-1]
        reason = f"is missing: the operator `{spec.name}` needs it"
        found.value(path, "missing", reason, f"add `{name}: …` under `config`")
    elif kind == "extra_forbidden":
        known = ", ".join(sorted(spec.config.model_fields)) or "no keys at all"
        if len(error["loc"]) > 1:
            better = None
        else:
            better = did_you_mean(
                str(error["loc"][-1]), spec.config.model_fields, f"it knows {known}"
            )
        reason = f"the operator `{spec.name}` has no such setting"
        found.key(path, "unknown_key", reason, better or "remove it")
    elif kind in _KINDS:
        reason = f"must be {_KINDS[kind]}, not {_shown_json(given)}"
        found.value(path, "wrong_type", reason, _better(kind, given))
    else:
        message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        named = f"{_shown_json(given)} is refused: " if not isinstance(given, dict | list) else ""
        reason = f"{named}{message[:1].lower()}{message[1:]}"
        found.value(path, "bad_config", reason, _within(error.get("ctx") or {}, given))


def _within(bounds: dict[str, Any], given: object) -> str:
    """What would be accepted, as far as the model's error says it."""
    if "ge" in bounds:
        return f"write `{bounds['ge']}` or more"
    if "le" in bounds:
        return f"write `{bounds['le']}` or less"
    if "expected" in bounds:
        words = re.findall(r"'([^']*)'", str(bounds["expected"]))
        return did_you_mean(str(given), words) or f"write {bounds['expected']}"
    return "change the value so that this holds"


def _better(kind: str, given: object) -> str:
    if kind.startswith("int") and isinstance(given, str) and given.strip().isdigit():
        return f"write `{given.strip()}` without quotes"
    if kind.startswith("int") and isinstance(given, float) and given.is_integer():
        return f"write `{int(given)}`"
    if kind == "string_type" and given is not None and not isinstance(given, dict | list):
        return f'write "{json.dumps(given)[:60]}" in quotes if it is meant as text'
    return f"write {_KINDS[kind]}"


def _shown_json(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true/false"
        case dict():
            return "a map"
        case list():
            return "a list"
        case str():
            return f"the text {shown(value)}"
    return f"the number {shown(value)}"
