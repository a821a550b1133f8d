"""The client of the user API: a method for each operation, patience, and errors that say why."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest

from trace_client import ApiError, Client, HttpTransport, each_page
from trace_core.http.operations import OPERATIONS, Operation
from trace_core.http.work_answers import DagPage
from trace_core.kernel.errors import Invalid, Unavailable
from trace_core.worker.connections import HttpReply

LIMITED = {"error": {"code": "RateLimited", "message": "Too many."}}


class Scripted:
    """Answers what it was told, in order, and keeps what it was asked."""

    def __init__(self, *replies: tuple[int, object, dict[str, str]]) -> None:
        self._replies = list(replies)
        self.asked: list[tuple[str, str, bytes, dict[str, str]]] = []

    def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> HttpReply:
        self.asked.append((method, path, data, dict(headers)))
        status, body, said = self._replies.pop(0)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return HttpReply(status, said, text)


def client(transport: Scripted, waits: list[float] | None = None, patience: float = 65) -> Client:
    return Client(
        transport,
        patience=patience,
        sleep=waits.append if waits is not None else lambda _seconds: None,
    )


@pytest.mark.parametrize("route", OPERATIONS)
def test_every_operation_is_a_method_that_answers_its_model(route: str) -> None:
    operation: Operation = OPERATIONS[route]
    method = getattr(Client, operation.name)
    answered = get_type_hints(method)["return"]
    if operation.answers:
        assert set(operation.answers.values()) == {answered}
    else:
        assert answered == dict[str, Any]
    if operation.query is not None:
        taken = set(inspect.signature(method).parameters)
        assert set(operation.query.model_fields) <= taken


def test_what_a_newer_platform_adds_is_left_aside() -> None:
    page = {"dags": [], "next": None, "new": 1}
    assert client(Scripted((200, page, {}))).dags() == DagPage(dags=[], next=None)


def test_an_answer_that_is_not_traces_is_said_to_be_none() -> None:
    with pytest.raises(Unavailable, match="is the address right"):
        client(Scripted((200, b"<html>", {}))).dags()


@pytest.mark.parametrize("method", ["dags", "clear_quota"])
def test_too_many_requests_are_waited_for_as_the_answer_says(method: str) -> None:
    waits: list[float] = []
    page = {"dags": [], "next": None, "cleared": True}
    transport = Scripted((429, LIMITED, {"retry-after": "17"}), (200, page, {}))
    getattr(client(transport, waits), method)()
    assert waits == [17]


def test_patience_ends_with_the_error_that_was_answered() -> None:
    waits: list[float] = []
    transport = Scripted(*[(429, LIMITED, {"retry-after": "30"})] * 9)
    with pytest.raises(ApiError) as raised:
        client(transport, waits).dags()
    assert (raised.value.http_status, raised.value.error_code) == (429, "RateLimited")
    assert waits == [30, 30]


def test_a_platform_that_is_away_is_asked_again_only_where_that_does_no_harm() -> None:
    away = (503, {"error": {"code": "Unavailable", "message": "Away."}}, {"retry-after": "1"})
    page = {"dags": [], "next": None}
    assert client(Scripted(away, away, (200, page, {}))).dags().dags == []
    asked = Scripted(away)
    with pytest.raises(ApiError) as raised:
        client(asked).trigger("a", "b", {})
    assert raised.value.http_status == 503
    assert len(asked.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 1}', b"{}"])
def test_a_refusal_without_a_body_of_ours_still_says_its_status(body: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        client(Scripted((404, body, {}))).dag("x")
    assert (raised.value.message, raised.value.error_code) == ("The API answered 404.", "Unknown")


def test_pages_follow_each_other_until_the_last() -> None:
    def page(name: str, following: str | None) -> tuple[int, object, dict[str, str]]:
        dag = {"dag_id": f"{name * 8}-0000-7000-8000-000000000000", "name": name, "version": 1,
               "activated_at": None, "paused_at": None, "jobs": 1}  # fmt: skip
        return 200, {"dags": [dag], "next": following}, {}

    transport = Scripted(page("a", "x1"), page("b", "x2"), page("c", None))
    api = client(transport)
    found = [each.name for part in each_page(lambda at: api.dags(cursor=at)) for each in part.dags]
    assert found == ["a", "b", "c"]
    assert [path for _, path, _, _ in transport.asked] == [
        "/v1/dags", "/v1/dags?cursor=x1", "/v1/dags?cursor=x2",
    ]  # fmt: skip


def test_names_and_filters_cannot_leave_their_place() -> None:
    transport = Scripted(*[(404, b"", {})] * 2)
    with pytest.raises(ApiError):
        client(transport).dag("../../v1/secrets?x=1")
    with pytest.raises(ApiError):
        client(transport).tasks(dag="a&limit=1")
    assert [path for _, path, _, _ in transport.asked] == [
        "/v1/dags/..%2F..%2Fv1%2Fsecrets%3Fx%3D1", "/v1/tasks?dag=a%26limit%3D1",
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["http://example.com", "http://10.0.0.1:7070", "ftp://localhost.x"])
def test_a_token_does_not_travel_in_the_open(url: str) -> None:
    with pytest.raises(Invalid, match="not https"):
        HttpTransport(url, lambda: "token")
