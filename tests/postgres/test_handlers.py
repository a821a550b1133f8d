"""Every route through its real handler, on real Postgres, with two orgs that must not meet."""

from __future__ import annotations

import io
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import Org, events, fence, start_body, stored
from trace_core.dag.model import Runtime
from trace_core.ports.credential_issuer import Credentials


def test_a_task_travels_from_event_to_completion_through_the_internal_api(alpha: Org) -> None:
    source = alpha.claim_source()
    done = alpha.ok(
        "POST", "/internal/events", {**fence(source), "events": events(source, range(3))}
    )
    assert done == {"accepted": 3, "duplicates": 0, "tasks_made": 3}
    again = alpha.ok(
        "POST", "/internal/events", {**fence(source), "events": events(source, range(3))}
    )
    assert again == {"accepted": 0, "duplicates": 3, "tasks_made": 0}

    first, second, third = alpha.claim(10)
    assert first["status"] == "Claimed"
    assert first["task"]["trigger"]["cursor"] == 0
    assert first["task"]["capability_token"].count(".") == 2
    beat = alpha.ok("POST", "/internal/heartbeat", fence(first))
    assert beat["status"] == "Running"
    assert beat["lease_expires_at"] == first["lease_expires_at"]

    task_id = first["task"]["task_id"]
    fetched = alpha.ok("GET", f"/internal/task-fetch?task_id={task_id}")
    assert fetched["status"] == "Running"
    assert "capability_token" not in fetched["task"]

    body = {**fence(first), "status": "Completed", "events": events(first, [0])}
    assert alpha.ok("POST", "/internal/task-complete", body)["status"] == "Completed"
    assert alpha.ok("POST", "/internal/task-complete", body)["status"] == "Completed"
    changed = {**body, "events": []}
    status, answer = alpha.call("POST", "/internal/task-complete", changed)
    assert (status, answer["error"]["code"]) == (409, "OutcomeDiffers")

    batch = {
        "completions": [
            {**fence(second), "status": "Failed", "error_code": "E", "error_message": "broke"},
            {**fence(third), "status": "Completed", "attempt": 9},
        ]
    }
    results = alpha.ok("POST", "/internal/task-complete", batch)["results"]
    assert results[0]["status"] == "Failed"
    assert results[1]["error"]["code"] == "StaleAttempt"


def test_a_claim_by_id_answers_the_task_or_the_reason(alpha: Org) -> None:
    source = alpha.claim_source()
    alpha.make_follow_tasks(source, 0, 2)
    tasks = alpha.ok("GET", "/v1/tasks?job=follow")["tasks"]
    ids = [each["task_id"] for each in tasks]
    body = {"worker_id": "w", "task_id": ids[0]}
    claimed = alpha.ok("POST", "/internal/task-claim", body)
    assert (claimed["status"], claimed["attempt"]) == ("Claimed", 1)
    refused = alpha.ok("POST", "/internal/task-claim", body)
    assert (refused["status"], refused["reason"]) == ("NotClaimed", "AlreadyRunning")
    unknown = str(uuid4())
    several = {"worker_id": "w", "task_ids": [ids[1], ids[1], unknown]}
    claims = alpha.ok("POST", "/internal/task-claim", several)["claims"]
    assert [each.get("reason", each["status"]) for each in claims] == ["Claimed", "NotFound"]


def test_public_keys_are_given_to_anybody_and_hold_no_private_part(alpha: Org) -> None:
    keys = alpha.ok("GET", "/internal/jwks/task", token="")["keys"]
    assert keys
    assert all("d" not in key and key["kty"] == "EC" for key in keys)


def test_a_runner_exchanges_its_start_token_and_works_with_its_capability_token(
    alpha: Org,
) -> None:
    payload = _reserved_lambda(alpha)
    started = alpha.ok("POST", "/v1/task/start", start_body(payload))
    again = alpha.ok("POST", "/v1/task/start", start_body(payload))
    assert again["lease_token"] == started["lease_token"]
    other = alpha.ok("POST", "/v1/task/start", start_body(payload, "r2"))
    assert (other["status"], other["reason"]) == ("NotClaimed", "AlreadyRunning")
    token = started["task"]["capability_token"]
    assert alpha.ok("POST", "/v1/task/heartbeat", fence(started), token=token)["status"]
    body = {**fence(started), "events": events(started, [1])}
    assert alpha.ok("POST", "/v1/task/events", body, token=token)["accepted"] == 1
    body = {**fence(started), "status": "Completed"}
    assert alpha.ok("POST", "/v1/task/complete", body, token=token)["status"] == "Completed"


def _reserved_lambda(org: Org) -> dict[str, Any]:
    source = org.claim_source()
    org.make_follow_tasks(source, 0, 1)
    follow = org.claim(10)[0]
    org.ok(
        "POST",
        "/internal/task-complete",
        {**fence(follow), "status": "Completed", "events": events(follow, [0])},
    )
    reserved = org.app.claims.reserve(org.org_id, Runtime.LAMBDA, 1)
    return org.app.payloads.build(reserved)[0]


def test_a_capability_token_speaks_for_its_own_attempt_only(alpha: Org) -> None:
    started = alpha.ok("POST", "/v1/task/start", start_body(_reserved_lambda(alpha)))
    token = started["task"]["capability_token"]
    own = fence(started)
    for name, value in (
        ("task_id", str(uuid4())),
        ("attempt", own["attempt"] + 1),
        ("lease_token", str(uuid4())),
    ):
        for path, extra in (
            ("/v1/task/heartbeat", {}),
            ("/v1/task/events", {"events": events(started, [1])}),
            ("/v1/task/complete", {"status": "Completed"}),
        ):
            status, answer = alpha.call("POST", path, {**own, **extra, name: value}, token=token)
            assert (status, answer["error"]["code"]) == (403, "Forbidden")


def test_an_expired_capability_token_is_refused(alpha: Org, manual_clock: ManualClock) -> None:
    started = alpha.ok("POST", "/v1/task/start", start_body(_reserved_lambda(alpha)))
    token = started["task"]["capability_token"]
    manual_clock.advance(timedelta(days=2))
    assert alpha.call("POST", "/v1/task/heartbeat", fence(started), token=token)[0] == 401


def test_people_see_and_steer_their_dags_and_tasks(alpha: Org) -> None:
    assert alpha.deploy()["created"] is False
    status, answer = alpha.call("POST", "/v1/dags", {"text": "version: 1\nnope: 1\n"})
    assert (status, answer["error"]["code"]) == (422, "DagInvalid")
    assert answer["error"]["problems"][0]["line"]

    assert [each["name"] for each in alpha.ok("GET", "/v1/dags")["dags"]] == ["chain"]
    assert alpha.ok("POST", "/v1/dags/chain/pause")["paused"] is True
    assert alpha.claim(10) == []
    assert alpha.ok("POST", "/v1/dags/chain/resume")["paused"] is False
    request = {"request": {"start": 1, "end": 10}}
    done = alpha.ok("POST", "/v1/dags/chain/jobs/history/trigger", request)
    assert done["number"] == 1

    source = alpha.claim_source()
    alpha.make_follow_tasks(source, 0, 2)
    totals = alpha.ok("GET", "/v1/status")["totals"]
    assert totals["queued"] >= 2
    first = alpha.ok("GET", "/v1/tasks?job=follow&limit=1")
    page = first["tasks"]
    older = alpha.ok("GET", f"/v1/tasks?job=follow&cursor={first['next']}")["tasks"]
    assert [each["scope"]["cursor"] for each in page + older] == [1, 0]
    task_id = page[0]["task_id"]
    assert alpha.ok("GET", f"/v1/tasks/{task_id}")["waits_for"] == "a worker"
    assert alpha.ok("POST", f"/v1/tasks/{task_id}/cancel")["status"] == "Canceled"
    assert alpha.ok("POST", f"/v1/tasks/{task_id}/retry")["status"] == "Queued"
    assert alpha.call("POST", f"/v1/tasks/{task_id}/retry")[0] == 409
    assert alpha.ok("GET", f"/v1/tasks/{task_id}/logs") == {"logs": []}
    for attempt, text in ((1, b"first\n"), (2, b"second \xff\n")):
        key = f"org/{alpha.org_id}/logs/{task_id}/{attempt}-1.log"
        alpha.app.objects.create(key, text)
    logs = alpha.ok("GET", f"/v1/tasks/{task_id}/logs")["logs"]
    assert [each["text"] for each in logs] == ["first\n", "second \ufffd\n"]


def test_ids_of_another_org_answer_404_everywhere(alpha: Org, beta: Org) -> None:
    source = alpha.claim_source()
    alpha.make_follow_tasks(source, 0, 1)
    waiting = alpha.ok("GET", "/v1/tasks?job=follow")["tasks"][0]["task_id"]
    own = beta.claim_source()
    before = stored(alpha.app.state)
    for method, path, body in (
        ("GET", f"/internal/task-fetch?task_id={waiting}", None),
        ("POST", "/internal/heartbeat", fence(source)),
        ("POST", "/internal/events", {**fence(source), "events": events(source, [7])}),
        ("POST", "/internal/task-complete", {**fence(source), "status": "Failed"}),
        ("GET", f"/v1/tasks/{waiting}", None),
        ("GET", f"/v1/tasks/{waiting}/logs", None),
        ("POST", f"/v1/tasks/{waiting}/cancel", None),
        ("POST", f"/v1/tasks/{waiting}/retry", None),
        ("POST", "/v1/dags/other/pause", None),
        ("POST", "/v1/dags/other/resume", None),
        ("POST", "/v1/dags/chain/jobs/nope/trigger", {}),
    ):
        status, answer = beta.call(method, path, body)
        assert (status, answer["error"]["code"]) == (404, "NotFound"), path
    claim = {"worker_id": "w", "task_id": waiting}
    assert beta.ok("POST", "/internal/task-claim", claim)["reason"] == "NotFound"
    # Its own task, with an output of the other org.
    foreign = {**fence(own), "events": events(source, [7])}
    assert beta.call("POST", "/internal/events", foreign)[0] == 422
    assert beta.ok("GET", "/v1/tasks?job=follow")["tasks"] == []
    assert stored(alpha.app.state) == before


def test_no_token_or_payload_reaches_the_log(alpha: Org, log: io.StringIO) -> None:
    started = alpha.ok("POST", "/v1/task/start", start_body(_reserved_lambda(alpha)))
    token = started["task"]["capability_token"]
    body = {**fence(started), "status": "Failed", "error_message": "a very private sentence"}
    alpha.ok("POST", "/v1/task/complete", body, token=token)
    alpha.app.state.close()
    assert alpha.call("GET", "/v1/status")[0] == 503
    lines = log.getvalue()
    assert "The request failed" in lines
    for secret in (token, alpha.user, alpha.worker, started["lease_token"], "private sentence"):
        assert secret not in lines
    assert "SELECT" not in lines


def test_a_task_gets_credentials_for_its_own_prefixes_while_it_runs(alpha: Org) -> None:
    started = alpha.ok("POST", "/v1/task/start", start_body(_reserved_lambda(alpha)))
    token = started["task"]["capability_token"]
    found = alpha.ok("POST", "/v1/task/credentials", fence(started), token=token)
    assert found["root"] == f"{alpha.app.home.objects.resolve().as_uri()}/"
    assert found["environment"] == {}, "files need none"
    task_id = started["task"]["task_id"]
    asked: list[dict[str, Any]] = []
    alpha.app.parts["credential_issuer"] = _Asked(asked)
    alpha.ok("POST", "/v1/task/credentials", fence(started), token=token)
    [given] = asked
    assert given["write_prefixes"] == tuple(
        output["staging_prefix"] for output in started["task"]["outputs"]
    )
    assert all(task_id in prefix for prefix in given["write_prefixes"])
    assert timedelta(0) < given["lifetime"] <= timedelta(hours=24)
    alpha.ok("POST", f"/v1/tasks/{task_id}/cancel")
    status, answer = alpha.call("POST", "/v1/task/credentials", fence(started), token=token)
    assert (status, answer["error"]["code"]) == (409, "TaskCanceled")
    alpha.ok("POST", "/v1/task/complete", {**fence(started), "status": "Canceled"}, token=token)
    status, answer = alpha.call("POST", "/v1/task/credentials", fence(started), token=token)
    assert (status, answer["error"]["code"]) == (409, "StaleAttempt")
    assert len(asked) == 1


def test_a_runner_sends_its_log_and_people_read_it(alpha: Org, beta: Org) -> None:
    started = alpha.ok("POST", "/v1/task/start", start_body(_reserved_lambda(alpha)))
    token, task_id = started["task"]["capability_token"], started["task"]["task_id"]
    body = {
        **fence(started),
        "lease_sequence": 1,
        "data": b64encode("printed ž\n".encode()).decode(),
    }
    assert alpha.ok("POST", "/v1/task/logs", body, token=token) == {"kept": True}
    [log] = alpha.ok("GET", f"/v1/tasks/{task_id}/logs")["logs"]
    assert (log["attempt"], log["text"]) == (1, "printed ž\n")
    assert beta.call("GET", f"/v1/tasks/{task_id}/logs")[0] == 404
    again = {**body, "data": b64encode(b"another").decode()}
    assert alpha.call("POST", "/v1/task/logs", again, token=token)[0] == 409, "written once"
    for wrong in ({"data": "not base64 !"}, {"lease_sequence": 0}, {"lease_sequence": "../x"}):
        assert alpha.call("POST", "/v1/task/logs", {**body, **wrong}, token=token)[0] == 422
    alpha.ok("POST", "/v1/task/complete", {**fence(started), "status": "Completed"}, token=token)
    late = {**body, "lease_sequence": 2}
    assert alpha.call("POST", "/v1/task/logs", late, token=token)[0] == 409


class _Asked:
    """The real issuer's place, to see what it is asked for."""

    def __init__(self, asked: list[dict[str, Any]]) -> None:
        self._asked = asked

    def issue(self, **given: Any) -> Credentials:
        self._asked.append(given)
        return Credentials("file:///", {}, datetime(2030, 1, 1, tzinfo=UTC))
