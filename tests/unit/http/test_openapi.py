"""The document of the user API: valid, complete, fresh, and what the handlers really answer."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

import trace_core
from functions.user_api.handler import api
from trace_core.http import operations, reference
from trace_core.http.answers import STATUS, Answer
from trace_core.http.error_codes import ERRORS, INTERNAL, OF_TASKS
from trace_core.http.openapi import document
from trace_core.http.principal import Kind
from trace_core.http.routes import ROUTES, Surface
from trace_core.kernel.errors import TraceError

ROOT = Path(__file__).parents[3]
USER_ROUTES = [each for each in ROUTES if each.surface is Surface.USER]

# Every code that was ever answered, with its status. Programs go by them: a line may be added, and
# none may be changed or taken away.
STABLE_CODES = """
AlreadyMember 409
ColumnsDiffer 422
CommitDiffers 409
CommitUnknown 422
Conflict 409
DagInvalid 422
DeployUnderWay 409
FilterInvalid 422
Forbidden 403
ForeignLocation 422
ForeignOutput 422
Internal 500
Invalid 422
KeyReused 409
LastAdmin 409
ManifestInvalid 422
NotCancelable 409
NotPurgeable 409
NotFound 404
NotJson 415
NotRetryable 409
OutcomeDiffers 409
PurgeBegan 409
Purging 409
OutputsOverlap 422
PartialOverlap 409
PlanStale 409
RateLimited 429
Rejected 400
RoleInUse 409
SnapshotExists 409
StaleAttempt 409
StateMoved 409
Superseded 409
TaskCanceled 409
TooLarge 413
TooManyWorkerTokens 409
Unauthenticated 401
Unavailable 503
UncommittedScope 422
"""
NEVER_ANSWERED = {
    "Busy": "is answered as Unavailable",
    "CursorMoved": "ends a slice of a source",
    "Damaged": "is answered as Internal",
    "Denied": "is answered as Internal",
    "Fenced": "ends an attempt that writes to the data database",
    "InUse": "postpones an outbox row that moves views",
    "InputsMoved": "stops a cutover, which nobody waits for",
    "MigrationChanged": "ends a migration",
    "PortTaken": "ends `trace dev`",
    "ResultInvalid": "ends the attempt of a Spark run",
    "RowsInvalid": "ends an attempt that writes rows",
    "VersionDiffers": "ends a deploy that makes dataset versions",
}


def test_the_document_is_valid_openapi_3_1() -> None:
    validate(document(), cls=OpenAPIV31SpecValidator)
    json.dumps(document())


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_is_fresh(name: str) -> None:
    text = (ROOT / reference.FOLDER / name).read_text(encoding="utf-8")
    assert text == reference.PAGES[name](), "run `make reference`"


def test_every_user_route_says_what_it_takes_and_answers() -> None:
    wanted = {f"{each.method} {each.path}" for each in USER_ROUTES}
    assert set(operations.OPERATIONS) == wanted
    names = [each.name for each in operations.OPERATIONS.values()]
    assert len(set(names)) == len(names)
    assert {each.tag for each in operations.OPERATIONS.values()} == set(operations.TAGS)


@pytest.mark.parametrize("route", USER_ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_a_handler_answers_the_model_that_its_operation_names(route: Any) -> None:
    endpoint = api.endpoint(route)
    answered = get_type_hints(endpoint)["return"]
    operation = operations.OPERATIONS[f"{route.method} {route.path}"]
    if get_origin(answered) is Answer:
        (model,) = get_args(answered)
        assert set(operation.answers.values()) == {model}
    elif operation.answers:
        assert dict(operation.answers) == {200: answered}
    else:
        assert get_origin(answered) is dict


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_says_who_may_call_and_how_it_is_refused() -> None:
    kinds = {f"{each.method} {each.path}": each.kind for each in USER_ROUTES}
    for name, operation in _operations():
        kind = kinds[name.replace("{", "<").replace("}", ">")]
        refused = {status for status in operation["responses"] if status >= "400"}
        if kind is Kind.NOBODY:
            assert operation["security"] == []
            continue
        assert operation["security"], name
        assert refused >= {"401", "422", "429", "500", "503"}, name
        assert ("404" in refused) is ("{" in name), name
        for status, answer in operation["responses"].items():
            if status < "400":
                assert "RateLimit-Remaining" in answer["headers"], name


def test_answers_may_grow_and_requests_may_not() -> None:
    schemas = document()["components"]["schemas"]
    assert "additionalProperties" not in schemas["TaskPage"]
    assert schemas["DeployRequest"]["additionalProperties"] is False


def _all_errors(kind: type[TraceError] = TraceError) -> Iterator[type[TraceError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _all_errors(each)


def test_no_code_is_missing_renamed_or_given_another_status() -> None:
    for module in pkgutil.walk_packages(trace_core.__path__, "trace_core."):
        if not module.name.endswith("__main__") and ".aws" not in module.name:
            importlib.import_module(module.name)
    ours = {each for each in _all_errors() if each.__module__.startswith("trace_core.")}
    assert {each.code for each in ours - set(ERRORS)} == set(NEVER_ANSWERED)
    found = {each.code: each.status for each in ERRORS} | {INTERNAL[0]: INTERNAL[1]}
    known = {line.split()[0]: int(line.split()[1]) for line in STABLE_CODES.strip().splitlines()}
    assert found == known
    assert set(ERRORS) >= OF_TASKS
    for each in ERRORS:
        table = [status for family, status in STATUS if issubclass(each, family)]
        assert [each.status] == table[:1] or (not table and each.status == found[each.code])


def test_the_page_for_people_has_every_operation_and_every_code() -> None:
    text = (ROOT / "docs/reference/user_api.md").read_text(encoding="utf-8")
    for name, _ in _operations():
        assert f"### `{name}`" in text
    for line in STABLE_CODES.strip().splitlines():
        code, status = line.split()
        assert f"| `{code}` | {status} |" in text
