from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.operators.payloads import make_payload
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, Result, task_context
from trace_core.operators.configs import RangeRequestConfig
from trace_core.operators.range_request import RangeRequest, requested_range


def run(*requests: Any) -> Result:
    numbered = [
        {"number": number, "request": request} for number, request in enumerate(requests, start=1)
    ]
    payload = make_payload("range_request", requests=numbered)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return RangeRequest().run(task_context(payload, RangeRequestConfig(), now=now))


def test_each_request_becomes_one_range_with_its_number_as_revision() -> None:
    result = run({"start": 0, "end": 9}, {"start": 0, "end": 9})
    assert result.events == [
        Emit(0, Scope.of_range(0, 9), 1),
        Emit(0, Scope.of_range(0, 9), 2),
    ]
    assert result.requests_taken == [1, 2]


def test_a_malformed_request_is_logged_and_taken(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        result = run({"start": 9, "end": 0}, {"start": 1, "end": 1})
    assert result.requests_taken == [1, 2]
    assert result.events == [Emit(0, Scope.of_range(1, 1), 2)]
    assert "request 1 is ignored: 9-0 is no range" in caplog.text


def test_what_one_completion_cannot_carry_stays_open() -> None:
    result = run(*[{"start": 0, "end": 1}] * 1500)
    assert list(result.requests_taken) == list(range(1, 1001))


@pytest.mark.parametrize(
    "request_body",
    [
        None,
        [],
        {},
        {"start": 1},
        {"start": 1, "end": 2, "step": 1},
        {"start": "1", "end": 2},
        {"start": True, "end": 2},
        {"start": 1.0, "end": 2},
        {"start": -1, "end": 2},
        {"start": 0, "end": 2**63},
    ],
)
def test_what_is_no_range_is_refused_when_it_is_asked_for(request_body: Any) -> None:
    with pytest.raises(Invalid):
        requested_range(request_body)
