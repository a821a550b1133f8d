"""Logs and metrics."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trace_core import telemetry
from trace_core.kernel.errors import Unavailable
from trace_core.tasks.views import BacklogMetrics

NOW = datetime(2026, 1, 15, tzinfo=UTC)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target, metrics=True):
        yield target


def test_a_function_that_raises_is_logged_counted_and_raises_on(log: io.StringIO) -> None:
    observer = telemetry.Telemetry("test_raises")

    @observer.observed
    def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        observer.keys(org="o", job="j", task="t", attempt=2)
        try:
            raise ValueError("password=hunter2")
        except ValueError as error:
            raise Unavailable("The queue is away.") from error

    with pytest.raises(Unavailable):
        handler({}, None)
    line, metrics = (json.loads(each) for each in log.getvalue().splitlines())
    assert {name: line[name] for name in ("org", "job", "task", "attempt")} == {
        "org": "o",
        "job": "j",
        "task": "t",
        "attempt": "2",
    }
    assert line["error"]["cause"] == "ValueError"
    assert metrics["FunctionErrors"] == [1.0]
    assert "hunter2" not in log.getvalue()


def test_keys_of_one_invocation_do_not_stay_for_the_next(log: io.StringIO) -> None:
    observer = telemetry.Telemetry("test_keys")

    @observer.observed
    def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
        observer.keys(**event)
        observer.info("done")
        return {}

    handler({"task": "first"}, None)
    handler({}, None)
    first, second = (json.loads(each) for each in log.getvalue().splitlines())
    assert first["task"] == "first"
    assert "task" not in second


def test_the_figures_of_the_backlog_are_depths_and_ages() -> None:
    backlog = BacklogMetrics(
        {"worker": 3, "lambda": 2},
        {"worker": NOW - timedelta(seconds=30), "lambda": None},
        4,
        1,
        2,
        NOW - timedelta(seconds=5),
        7,
        1,
        NOW + timedelta(seconds=1),
        NOW - timedelta(seconds=90),
        2,
        1,
        3,
    )
    assert telemetry.backlog_figures(backlog, NOW) == {
        "BacklogDepth": 5,
        "BacklogAge": 30.0,
        "TasksRunning": 4,
        "TasksRetrying": 1,
        "SourcesFailing": 2,
        "LeaseLag": 5.0,
        "OutboxPending": 7,
        "OutboxFailed": 1,
        "OutboxAge": 0.0,
        "DeployAge": 90.0,
        "DeploysStuck": 2,
        "JobsForbidden": 1,
        "SlotsQuarantined": 3,
    }
