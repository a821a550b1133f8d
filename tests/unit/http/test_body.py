"""Bodies: of a known form and size, and nothing in them that Postgres cannot store."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from trace_core.http import body
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, TooLarge


class Anything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: Any = None
    number: int = 0


def parse(data: bytes, content_type: str = "application/json") -> Anything:
    return body.parse(Anything, data, content_type)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"value":1}x',
        b"\xff\xfe",
        b'{"unknown":1}',
        b'{"number":"many"}',
        b'{"value":NaN}',
        b'{"value":[{"a":-Infinity}]}',
        b'{"value":1e999}',
        b'{"value":-1E+400}',
        b'{"value":"\\u0000"}',
        b'{"value":{"a\\u0000b":1}}',
        b'{"value":"\\ud800"}',
        b'{"value":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"value":' + b"9" * 5000 + b"}",
    ],
)
def test_what_cannot_be_understood_or_stored_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        parse(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"value":"NaN and Infinity"}',
        b'{"value":"\\\\u0000"}',
        b'{"value":"1e999"}',
        b'{"value":1e100}',
        b'{"value":"\\ud83d\\ude00"}',
    ],
)
def test_what_only_looks_suspicious_is_accepted(data: bytes) -> None:
    assert parse(data).value is not None


def test_a_refusal_names_the_field_and_never_the_value() -> None:
    with pytest.raises(Invalid) as refused:
        parse(b'{"number":"a secret value"}')
    text = str(refused.value.body())
    assert "number" in text
    assert "secret" not in text


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_read(content_type: str) -> None:
    with pytest.raises(body.NotJson):
        parse(b"{}", content_type)
    assert parse(b"{}", "Application/JSON; charset=utf-8") == Anything()


def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    most = "x" * limits.REQUEST_BODY_MAX
    assert len(body.body_of({"body": most})) == limits.REQUEST_BODY_MAX
    for event in (
        {"body": most + "x"},
        {"body": "é" * (limits.REQUEST_BODY_MAX // 2 + 1)},
        {"body": base64.b64encode(most.encode() + b"x").decode(), "isBase64Encoded": True},
    ):
        with pytest.raises(TooLarge):
            body.body_of(event)


def test_a_base64_body_is_decoded_and_a_broken_one_refused() -> None:
    assert body.body_of({"body": "e30=", "isBase64Encoded": True}) == b"{}"
    with pytest.raises(Invalid):
        body.body_of({"body": "e30", "isBase64Encoded": True})


def test_a_field_counts_only_at_the_top_of_the_body() -> None:
    assert body.has_field(b'{"completions":[]}', "completions")
    assert not body.has_field(b'{"error_message":"\\"completions\\""}', "completions")
    assert not body.has_field(b'{"a":{"completions":1}}', "completions")
    assert not body.has_field(b'["completions"', "completions")
