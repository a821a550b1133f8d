"""The user API as an OpenAPI 3.1 document, made from routes, operations and models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from trace_core.http.auth import ORG_HEADER
from trace_core.http.error_codes import ERRORS, INTERNAL, OF_TASKS
from trace_core.http.operations import TAGS, Operation, user_routes
from trace_core.http.principal import Kind
from trace_core.http.routes import Route
from trace_core.identity.webhook_signature import HEADERS
from trace_core.kernel.errors import TraceError

VERSION = "1.0.0"
"""Of the contract: the first number changes when a client would break, which `/v1` says too."""
DESCRIPTION = """\
What people do with Trace: from the command line, a console or programs of their own.

**Pages.** A list takes `limit` and `cursor` and answers `next`, which is the `cursor` of the next
page, or null on the last one. A page may hold fewer than `limit` and still have a next one.

**Errors** have a body of one form. Their `code` is stable; `message` is for people and may change.

**Limits.** Each answer to a known caller says how many requests are left in this minute. A 429 says
in `Retry-After` when to come back.

Fields may be added to answers, and codes to errors. Take what you know and leave the rest.
"""
_PARAMETER = re.compile(r"<([a-z_]+)>")
_IDS = ("task_id", "user_id", "token_id", "source_id")
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}
_MEANING = {
    "dataset": "Name of the dataset.", "snapshot": "Name of the snapshot.",
    "dag": "Name of the DAG.", "pool": "Name of the worker pool.", "slot": "Name of the slot.",
    "job": "Name of the job.", "number": "Its number.",
    "role": "Name of the org role.", "name": "Name of the secret.",
    "runtime": "Whose queue, such as `worker`.", "task_id": "Id of the task.",
    "user_id": "Id of the member.", "token_id": "Id of the token, not the token.",
    "source_id": "Id of the webhook source.",
}  # fmt: skip
_REF = "#/components/schemas/{model}"


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route, operation in user_routes():
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trace user API", "version": VERSION, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in TAGS],
        "paths": paths,
        "components": {
            "securitySchemes": _security_schemes(),
            "headers": _headers(),
            "responses": {_response_name(status): _refused(status) for status in _statuses()},
            "schemas": _schemas(),
        },
    }


def _operation(route: Route, operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": route.summary,
        "tags": [operation.tag],
        "security": _security(route.kind),
    }
    if route.role is not None:
        found["description"] = f"Needs the platform role {route.role.value}."
        found["x-platform-role"] = route.role.value
    parameters = [_path_parameter(name) for name in _PARAMETER.findall(route.path)]
    if operation.query is not None:
        parameters += _query_parameters(operation.query)
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": _ref(operation.body)}}
        found["requestBody"] = {"required": True, "content": content}
    found["responses"] = _responses(route, operation)
    return found


def _security(kind: Kind) -> list[dict[str, list[str]]]:
    match kind:
        case Kind.USER:
            return [{"userToken": []}, {"userToken": [], "org": []}]
        case Kind.SOURCE:
            return [{_scheme(header): [] for header in HEADERS}]
        case _:
            return []


def _security_schemes() -> dict[str, Any]:
    signature = {
        _scheme(header): {
            "type": "apiKey",
            "in": "header",
            "name": header,
            "description": "Standard Webhooks: HMAC-SHA256 by a secret of the source.",
        }
        for header in HEADERS
    }
    return {
        "userToken": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "A token of the OpenID Connect issuer, for a member of the org.",
        },
        "org": {
            "type": "apiKey",
            "in": "header",
            "name": ORG_HEADER,
            "description": "Name or id of the org; members of one org may leave it out.",
        },
        **signature,
    }


def _scheme(header: str) -> str:
    first, *rest = header.split("-")
    return first + "".join(part.title() for part in rest)


def _path_parameter(name: str) -> dict[str, Any]:
    if name in _IDS:
        schema: dict[str, Any] = {"type": "string", "format": "uuid"}
    elif name == "number":
        schema = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
    else:
        schema = dict(_NAME)
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _MEANING[name],
        "schema": schema,
    }


def _query_parameters(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    found = model.model_json_schema(ref_template=_REF)
    for name, schema in found["properties"].items():
        schema = _without_null(_plain(schema))
        described = schema.pop("description", None)
        parameter = {"name": name, "in": "query", "required": False, "schema": schema}
        yield {**parameter, "description": described} if described else parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is not there: text has no null."""
    kinds = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    if schema.get("default", 0) is None:
        schema.pop("default")
    for each in kinds:
        schema = {**each, **schema}
    return schema


def _responses(route: Route, operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counted = route.kind in (Kind.USER, Kind.SOURCE)
    for status, model in operation.answers.items():
        found[str(status)] = _answered(status, _ref(model), counted)
    if not operation.answers:
        found["200"] = _answered(200, {"type": "object"}, counted)
    for status in _statuses_of(route, operation):
        found[str(status)] = {"$ref": f"#/components/responses/{_response_name(status)}"}
    if operation.conflicts:
        found["409"] = _refused(409, *operation.conflicts)
    return dict(sorted(found.items()))


def _answered(status: int, schema: dict[str, Any], counted: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": schema}},
    }
    if counted:
        found["headers"] = _limit_headers()
    return found


def _statuses_of(route: Route, operation: Operation) -> Iterator[int]:
    if route.kind in (Kind.USER, Kind.SOURCE):
        yield from (401, 422, 429, 503)
    if route.kind is Kind.USER:
        yield 403
    if "<" in route.path:
        yield 404
    if operation.body is not None:
        yield from (413, 415)
    yield 500


def _statuses() -> tuple[int, ...]:
    return tuple(sorted({each.status for each in ERRORS} - {400, 409} | {INTERNAL[1]}))


def _response_name(status: int) -> str:
    return "".join(word.title() for word in HTTPStatus(status).phrase.split())


def _refused(status: int, *kinds: type[TraceError]) -> dict[str, Any]:
    shown = kinds or [each for each in ERRORS if each.status == status and each not in OF_TASKS]
    examples: dict[str, Any] = {
        each.code: {"value": _body(each.code, meaning(each))} for each in shown
    }
    if status == INTERNAL[1]:
        code, _, message = INTERNAL
        examples[code] = {"value": _body(code, message)}
    codes = ", ".join(f"`{code}`" for code in examples)
    found: dict[str, Any] = {
        "description": f"{HTTPStatus(status).phrase}: {codes}.",
        "content": {
            "application/json": {
                "schema": {"$ref": _REF.format(model="Error")}, "examples": examples,
            }
        },
    }  # fmt: skip
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
    return found


def meaning(kind: type[TraceError]) -> str:
    return inspect.getdoc(kind) or kind.code


def _body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _headers() -> dict[str, Any]:
    def header(description: str) -> dict[str, Any]:
        schema = {"type": "integer", "minimum": 0}
        return {"description": description, "required": True, "schema": schema}

    return {
        "RateLimitLimit": header("Requests in a minute, of whatever is nearest to its limit."),
        "RateLimitRemaining": header("Requests that are left in this minute."),
        "RateLimitReset": header("Seconds until the next minute begins."),
        "RetryAfter": header("Seconds after which another try is worth it."),
    }


def _limit_headers() -> dict[str, Any]:
    return {
        f"RateLimit-{name}": {"$ref": f"#/components/headers/RateLimit{name}"}
        for name in ("Limit", "Remaining", "Reset")
    }


def _schemas() -> dict[str, Any]:
    bodies = [each.body for _, each in user_routes() if each.body is not None]
    queries = [each.query for _, each in user_routes() if each.query is not None]
    answers = [model for _, each in user_routes() for model in each.answers.values()]
    asked = _definitions([*bodies, *queries], "validation")
    answered = {
        # Fields may be added to what is answered: whoever checks must not refuse them.
        name: {key: value for key, value in schema.items() if key != "additionalProperties"}
        for name, schema in _definitions(answers, "serialization").items()
    }
    for name in asked.keys() & answered.keys():
        if asked[name] != answered[name]:
            raise ValueError(f"{name} is two things: what is asked, and what is answered")
    unused = {each.__name__ for each in queries}
    found = {**asked, **answered, "Error": _error()}
    return {name: found[name] for name in sorted(found) if name not in unused}


def _definitions(
    models: list[type[BaseModel]], mode: Literal["validation", "serialization"]
) -> dict[str, dict[str, Any]]:
    distinct = list(dict.fromkeys(models))
    _, found = models_json_schema([(each, mode) for each in distinct], ref_template=_REF)
    return {name: _plain(schema) for name, schema in found.get("$defs", {}).items()}


def _plain(schema: Any) -> Any:
    """Without the titles that repeat a name in capitals."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _plain(each) for name, each in value.items()}
        if key == "properties"
        else _plain(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _error() -> dict[str, Any]:
    codes = [each.code for each in ERRORS if each not in OF_TASKS]
    return {
        "type": "object",
        "description": "Why a request was refused. Some codes have more fields.",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "code": {
                        "type": "string",
                        "description": "Stable. One that you do not know: go by the status.",
                        "x-extensible-enum": [*codes, INTERNAL[0]],
                    },
                    "message": {"type": "string", "description": "For people."},
                    "problems": {
                        "type": "array",
                        "description": "Of `Invalid` and `DagInvalid`: each place and its reason.",
                        "items": {
                            "type": "object",
                            "properties": {"reason": {"type": "string"}},
                            "required": ["reason"],
                        },
                    },
                },
                "required": ["code", "message"],
            }
        },
        "required": ["error"],
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
