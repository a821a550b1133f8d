"""One API: whatever happens on the way, the caller gets a small JSON answer."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from trace_core import telemetry
from trace_core.http.answers import INTERNAL
from trace_core.http.api import Api, Request
from trace_core.http.auth import Authenticator, bearer
from trace_core.http.principal import Kind, Principal
from trace_core.http.proxy_event import LocalContext, rest_event
from trace_core.http.routes import Surface
from trace_core.identity.model import PlatformRole
from trace_core.kernel.errors import StaleAttempt, Unauthenticated, Unavailable
from trace_core.kernel.ids import OrgId

ORG = OrgId(UUID(int=1))
GOOD = "user-token"


def check(token: str) -> Principal:
    if not token.startswith("user"):
        raise Unauthenticated
    return Principal(ORG, None, Kind.USER, platform_role=PlatformRole.READER)


class FakeApp:
    authenticator = Authenticator({Kind.USER: bearer(check)})
    rate_limits: Any = None
    """Nobody here has an id by which to be counted."""


observer = telemetry.Telemetry("test_api")
api: Api[FakeApp] = Api(Surface.USER, FakeApp, observer)
raised: list[Exception] = []


@api.route("GET", "/v1/status")
def status(call: Request[FakeApp]) -> object:
    raise raised.pop()


@api.route("GET", "/v1/tasks/<task_id>")
def task(call: Request[FakeApp]) -> object:
    return {"task_id": call.path["task_id"], "org": call.principal.org_id}


@api.route("GET", "/v1/dags")
def unserialisable(call: Request[FakeApp]) -> object:
    return {"value": SimpleNamespace, "broken": b"\xff"}


@observer.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return api.resolve(event, context)


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target, metrics=True):
        yield target


def call(path: str, token: str = GOOD, method: str = "GET") -> tuple[int, Any, Any]:
    event = rest_event(method, path, headers={"authorization": f"Bearer {token}"})
    answer = handler(event, LocalContext("r", "f"))
    return answer["statusCode"], json.loads(answer["body"]), answer["multiValueHeaders"]


def test_an_expected_error_answers_its_status_and_its_fields() -> None:
    raised.append(StaleAttempt(task_id="t"))
    status_code, body, _ = call("/v1/status")
    assert (status_code, body["error"]["code"], body["error"]["task_id"]) == (
        409,
        "StaleAttempt",
        "t",
    )


def test_an_unexpected_error_answers_its_code_only_and_is_logged_without_its_words(
    log: io.StringIO,
) -> None:
    raised.append(ValueError("SELECT secret FROM tokens"))
    assert call("/v1/status")[:2] == (500, INTERNAL)
    lines = log.getvalue()
    assert "ValueError" in lines
    assert "test_api.py" in lines
    assert "secret" not in lines


def test_a_dependency_that_is_away_answers_503_without_the_reason(log: io.StringIO) -> None:
    raised.append(Unavailable("pg at 10.0.0.7 refused password"))
    status_code, body, headers = call("/v1/status")
    assert (status_code, headers["Retry-After"]) == (503, ["1"])
    assert "10.0.0.7" not in str(body)
    assert "Unavailable" in log.getvalue()


def test_without_a_token_nothing_is_called() -> None:
    for token in ("", "worker-token", "user token", "user\ttoken"):
        status_code, body, headers = call("/v1/tasks/t", token)
        assert (status_code, body["error"]["code"]) == (401, "Unauthenticated")
        assert headers["WWW-Authenticate"] == ["Bearer"]


def test_an_unknown_route_or_method_answers_404() -> None:
    assert call("/v1/nothing")[0] == 404
    assert call("/v1/status", method="POST")[0] == 404


@pytest.mark.parametrize("name", ["..", "a b", "a%2Fb", "é", "x" * 129, "a;b", "<x>"])
def test_a_path_parameter_that_cannot_be_a_name_answers_404(name: str) -> None:
    assert call(f"/v1/tasks/{name}")[0] == 404


def test_no_answer_may_be_kept_by_a_cache() -> None:
    assert call("/v1/tasks/t")[2]["Cache-Control"] == ["no-store"]


def test_a_value_that_json_cannot_hold_is_a_logged_500(log: io.StringIO) -> None:
    assert call("/v1/dags")[0] == 500
    assert "The request failed" in log.getvalue()


def test_a_log_line_names_the_route_and_the_org_but_no_token(log: io.StringIO) -> None:
    raised.append(KeyError("x"))
    call("/v1/status", "user-very-secret")
    line = next(line for line in log.getvalue().splitlines() if "The request failed" in line)
    assert json.loads(line)["org"] == str(ORG)
    assert json.loads(line)["route"] == "GET /v1/status"
    assert "very-secret" not in log.getvalue()


def test_metrics_of_an_invocation_are_published_once(log: io.StringIO) -> None:
    call("/v1/tasks/t")
    found = [json.loads(line) for line in log.getvalue().splitlines() if '"_aws"' in line]
    assert len(found) == 1
    assert found[0]["Requests"] == [1.0]
    assert found[0]["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Trace"


class Interrupted(str):
    """A method name during whose reading another thread's request runs from start to end."""

    __slots__ = ()

    def upper(self) -> str:
        other = threading.Thread(target=call, args=("/v1/tasks/other",))
        other.start()
        other.join()
        return str(self)


def test_a_request_in_another_thread_does_not_change_this_one() -> None:
    event = rest_event("GET", "/v1/tasks/own", headers={"authorization": f"Bearer {GOOD}"})
    event["httpMethod"] = Interrupted("GET")
    answer = handler(event, LocalContext("r", "f"))
    assert json.loads(answer["body"])["task_id"] == "own"


def test_many_requests_at_once_are_each_answered_for_themselves() -> None:
    wrong: list[str] = []

    def ask(number: int) -> None:
        for turn in range(50):
            name = f"t{number}_{turn}"
            if call(f"/v1/tasks/{name}")[1].get("task_id") != name:
                wrong.append(name)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
