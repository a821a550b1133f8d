"""Every log line about a task names org, job, task and attempt, on all three APIs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import Org, fence, start_body
from trace_core import telemetry
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.http.routes import ROUTES
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import Ids

SERVICES = (
    "claims",
    "payloads",
    "leases",
    "events",
    "completions",
    "views",
    "task_admin",
    "deploys",
    "requests",
)


class Broken:
    """A service in which every call fails, with words that must not reach the log."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, _name: str) -> Any:
        def fail(*_given: object, **_named: object) -> None:
            raise self._error

        return fail


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target):
        yield target


@pytest.fixture
def org(
    state_database: StateDatabase,
    tmp_path: Path,
    manual_clock: ManualClock,
    ids: Ids,
    log: io.StringIO,
) -> Iterator[Org]:
    org = Org("alpha", tmp_path, state_database, manual_clock, ids)
    org.deploy()
    yield org
    org.app.close()


class Scene:
    """A running task of `follow`, one of `tail` that runs, and one that is reserved."""

    def __init__(self, org: Org) -> None:
        self.org = org
        source = org.claim_source()
        org.make_follow_tasks(source, 0, 3)
        first, second, self.follow = org.claim(10)
        for claim in (first, second):
            output = claim["task"]["outputs"][0]
            named = {name: output[name] for name in ("dataset_uuid", "dataset_version")}
            body = {**fence(claim), "status": "Completed", "events": [{**named, "cursor": 0}]}
            org.ok("POST", "/internal/task-complete", body)
        self.tail = org.started_lambda()
        reserved = org.app.claims.reserve(org.org_id, Runtime.LAMBDA, 1)
        self.reserved = org.app.payloads.build(reserved)[0]
        self.token = self.tail["task"]["capability_token"]

    def break_services(self, error: Exception) -> None:
        for name in SERVICES:
            self.org.app.parts[name] = Broken(error)


def _internal(path: str, extra: dict[str, Any]) -> Callable[[Scene], tuple[int, Any]]:
    return lambda s: s.org.call("POST", path, {**fence(s.follow), **extra})


def _task(path: str, extra: dict[str, Any]) -> Callable[[Scene], tuple[int, Any]]:
    return lambda s: s.org.call("POST", path, {**fence(s.tail), **extra}, token=s.token)


def _user(method: str, rest: str) -> Callable[[Scene], tuple[int, Any]]:
    return lambda s: s.org.call(method, f"/v1/tasks/{s.follow['task']['task_id']}{rest}")


def _event(_scene: Scene) -> dict[str, Any]:
    output = _scene.follow["task"]["outputs"][0]
    return {name: output[name] for name in ("dataset_uuid", "dataset_version")} | {"cursor": 1}


FOLLOW, TAIL, RESERVED = "follow", "tail", "reserved"
CALLS: dict[tuple[str, str], tuple[str, Callable[[Scene], tuple[int, Any]]]] = {
    ("POST", "/internal/task-claim"): (
        FOLLOW,
        lambda s: s.org.call(
            "POST",
            "/internal/task-claim",
            {"worker_id": "w", "task_id": s.follow["task"]["task_id"]},
        ),
    ),
    ("GET", "/internal/task-fetch"): (
        FOLLOW,
        lambda s: s.org.call("GET", f"/internal/task-fetch?task_id={s.follow['task']['task_id']}"),
    ),
    ("POST", "/internal/heartbeat"): (FOLLOW, _internal("/internal/heartbeat", {})),
    ("POST", "/internal/task-inputs"): (
        FOLLOW,
        _internal("/internal/task-inputs", {"alias": "numbers"}),
    ),
    ("POST", "/internal/events"): (
        FOLLOW,
        lambda s: s.org.call(
            "POST", "/internal/events", {**fence(s.follow), "events": [_event(s)]}
        ),
    ),
    ("POST", "/internal/task-complete"): (
        FOLLOW,
        _internal("/internal/task-complete", {"status": "Completed"}),
    ),
    ("POST", "/v1/task/start"): (
        RESERVED,
        lambda s: s.org.call("POST", "/v1/task/start", start_body(s.reserved), token=""),
    ),
    ("POST", "/v1/task/heartbeat"): (TAIL, _task("/v1/task/heartbeat", {})),
    ("POST", "/v1/task/events"): (
        TAIL,
        lambda s: s.org.call(
            "POST", "/v1/task/events", {**fence(s.tail), "events": [_event(s)]}, token=s.token
        ),
    ),
    ("POST", "/v1/task/inputs"): (TAIL, _task("/v1/task/inputs", {"alias": "follow"})),
    ("POST", "/v1/task/complete"): (TAIL, _task("/v1/task/complete", {"status": "Completed"})),
    ("POST", "/v1/task/logs"): (
        TAIL,
        _task("/v1/task/logs", {"lease_sequence": 1, "data": "aGVsbG8="}),
    ),
    ("POST", "/v1/task/credentials"): (TAIL, _task("/v1/task/credentials", {})),
    ("GET", "/v1/tasks/<task_id>"): (FOLLOW, _user("GET", "")),
    ("GET", "/v1/tasks/<task_id>/attempts"): (FOLLOW, _user("GET", "/attempts")),
    ("GET", "/v1/tasks/<task_id>/logs"): (FOLLOW, _user("GET", "/logs")),
    ("POST", "/v1/tasks/<task_id>/cancel"): (FOLLOW, _user("POST", "/cancel")),
    ("POST", "/v1/tasks/<task_id>/retry"): (FOLLOW, _user("POST", "/retry")),
}
ABOUT_A_TASK = re.compile(r"/internal/(?!jwks|wake-ups)|/v1/task/|/v1/tasks/<task_id>")


def _line(log: io.StringIO) -> dict[str, Any]:
    (line,) = (json.loads(each) for each in log.getvalue().splitlines())
    assert line["message"] == "The request failed"
    assert "private" not in log.getvalue()
    return dict(line)


def test_every_route_is_known_to_be_about_a_task_or_not() -> None:
    declared = {(each.method, each.path) for each in ROUTES if ABOUT_A_TASK.match(each.path)}
    assert declared == set(CALLS)


@pytest.mark.parametrize("route", CALLS, ids=lambda each: " ".join(each))
def test_a_failed_request_is_logged_with_org_job_task_and_attempt(
    org: Org, log: io.StringIO, route: tuple[str, str]
) -> None:
    scene = Scene(org)
    scene.break_services(RuntimeError("private"))
    about, call = CALLS[route]
    assert call(scene)[0] == 500
    line = _line(log)
    job = {FOLLOW: "chain.follow", TAIL: "chain.tail", RESERVED: "chain.tail"}[about]
    tasks = {
        FOLLOW: scene.follow["task"]["task_id"],
        TAIL: scene.tail["task"]["task_id"],
        RESERVED: str(scene.reserved["task_id"]),
    }
    assert line["route"] == " ".join(route)
    named = {name: line[name] for name in ("org", "job", "task", "attempt")}
    expected = {"org": str(org.org_id), "job": job, "task": tasks[about], "attempt": "1"}
    assert named == expected


def test_a_failed_list_of_reports_names_all_of_its_tasks(org: Org, log: io.StringIO) -> None:
    scene = Scene(org)
    scene.break_services(RuntimeError("private"))
    reports = [{**fence(each), "status": "Completed"} for each in (scene.follow, scene.tail)]
    assert org.call("POST", "/internal/task-complete", {"completions": reports})[0] == 500
    line = _line(log)
    assert line["task"] == [each["task_id"] for each in reports]
    assert line["job"] == ["chain.follow", "chain.tail"]
    assert line["attempt"] == ["1", "1"]


def test_a_request_to_a_job_is_logged_with_it(org: Org, log: io.StringIO) -> None:
    Scene(org).break_services(RuntimeError("private"))
    assert org.call("POST", "/v1/dags/chain/jobs/history/trigger", {})[0] == 500
    assert _line(log)["job"] == "chain.history"


def test_nothing_is_looked_up_when_nothing_is_logged_or_the_database_is_away(
    org: Org, log: io.StringIO
) -> None:
    scene = Scene(org)
    org.app.parts["task_names"] = Broken(AssertionError("looked up"))
    assert org.call("POST", "/internal/heartbeat", fence(scene.follow))[0] == 200
    assert log.getvalue() == ""
    scene.break_services(Unavailable("private"))
    assert org.call("POST", "/internal/heartbeat", fence(scene.follow))[0] == 503
    (line,) = (json.loads(each) for each in log.getvalue().splitlines())
    assert (line["task"], line["attempt"]) == (scene.follow["task"]["task_id"], "1")
    assert line["keys_missing"] == "Unavailable"


def test_a_task_of_another_org_is_logged_without_its_job(
    org: Org, log: io.StringIO, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> None:
    other = Org("beta", tmp_path, org.app.state, manual_clock, ids)
    scene = Scene(org)
    other.app.parts["leases"] = Broken(RuntimeError("private"))
    assert other.call("POST", "/internal/heartbeat", fence(scene.follow))[0] == 500
    line = _line(log)
    assert line["org"] == str(other.org_id)
    assert "job" not in line
