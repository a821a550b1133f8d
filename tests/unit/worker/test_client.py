from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.unit.operators.payloads import make_payload
from tests.unit.worker.platform_for_tests import WORKER_TOKEN, Platform, serve
from trace_core.kernel.errors import (
    Conflict,
    Forbidden,
    OutcomeDiffers,
    Rejected,
    StaleAttempt,
    Superseded,
    TaskCanceled,
    TraceError,
    Unavailable,
)
from trace_core.worker.attempt import Attempt
from trace_core.worker.client import HttpClient, WorkerApi, error_of
from trace_core.worker.completions import Report, follow_up, report_until_settled
from trace_core.worker.outcome import CANCELED, SUPERSEDED, Outcome, failure
from trace_core.worker.wake_ups import RemoteWakeUps

DONE = Outcome({"status": "Completed"})


@pytest.fixture
def client(url: str) -> Iterator[HttpClient]:
    made = HttpClient(url, WORKER_TOKEN, timeout=5)
    yield made
    made.close()


def attempt() -> Attempt:
    task = make_payload("pass_on")
    return Attempt.of({"task": task, "attempt": 1, "lease_token": task["lease_token"]})


@pytest.mark.parametrize(
    "error", [StaleAttempt, Superseded, OutcomeDiffers, TaskCanceled, Forbidden]
)
def test_an_answer_is_raised_as_the_error_that_its_code_names(
    platform: Platform, client: HttpClient, error: type[TraceError]
) -> None:
    platform.outages["/internal/heartbeat"] = [error("because", task_id="x")]
    with pytest.raises(error, match="because") as caught:
        client.post("/internal/heartbeat", attempt().fence)
    assert caught.value.fields == {"task_id": "x"}


@pytest.mark.parametrize(
    ("status", "family"), [(409, Conflict), (418, Rejected), (500, Unavailable), (502, Unavailable)]
)
def test_an_unknown_code_is_judged_by_its_status(status: int, family: type[TraceError]) -> None:
    assert type(error_of({"error": {"code": "Newer", "message": "?"}}, status)) is family
    assert type(error_of("<html>", status)) is family


def test_lost_connections_and_outages_are_tried_again(
    platform: Platform, client: HttpClient
) -> None:
    platform.outages["/internal/heartbeat"] = ["drop", Unavailable(), "drop"]
    assert client.post("/internal/heartbeat", attempt().fence)["status"] == "Running"


def test_one_connection_serves_many_calls(platform: Platform, client: HttpClient) -> None:
    for _ in range(20):
        client.post("/internal/heartbeat", attempt().fence)
    assert len(client._connections._idle) == 1


def test_a_kept_connection_that_the_server_closed_is_replaced_without_a_pause(
    platform: Platform, client: HttpClient
) -> None:
    client.post("/internal/heartbeat", attempt().fence)
    platform.outages["/internal/heartbeat"] = ["drop"]
    answer = client.post("/internal/heartbeat", attempt().fence, patience=0)
    assert answer["status"] == "Running"


def test_nobody_at_the_address_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = HttpClient(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Unavailable):
            client.post("/internal/heartbeat", {}, patience=0)


def test_a_path_in_the_address_goes_before_every_call(platform: Platform) -> None:
    with serve(platform, keep_alive=False) as url:
        client = HttpClient(f"{url}/internal/", WORKER_TOKEN)
        assert client.post("/heartbeat", attempt().fence)["status"] == "Running"


@pytest.mark.parametrize("address", ["ftp://host", "host:80", "http://"])
def test_what_is_no_http_address_is_refused(address: str) -> None:
    with pytest.raises(Rejected):
        HttpClient(address)


def test_a_platform_that_hears_nothing_lets_its_worker_rest_and_poll(
    platform: Platform, client: HttpClient
) -> None:
    # The platform of these tests is an older one: it has no such route.
    wake_ups = RemoteWakeUps(WorkerApi(client))
    started = time.monotonic()
    assert wake_ups.wait(timedelta(seconds=0.2)) == []
    assert time.monotonic() - started >= 0.2


def test_completions_of_one_call_are_answered_one_by_one(
    platform: Platform, client: HttpClient
) -> None:
    good, stale = attempt(), attempt()
    platform.stale.add(stale.task_id)
    answers = WorkerApi(client).complete([Report(each, DONE).body for each in (stale, good)])
    assert isinstance(answers[0], StaleAttempt)
    assert answers[1] is None


def test_a_stale_completion_is_dropped_and_a_canceled_one_acknowledged() -> None:
    report = Report(attempt(), DONE)
    assert follow_up(report, StaleAttempt()) is None
    assert follow_up(report, TaskCanceled()) == Report(report.attempt, CANCELED)
    assert follow_up(Report(report.attempt, CANCELED), TaskCanceled()) is None


def test_a_result_of_older_inputs_is_reported_as_superseded_and_not_left_to_its_lease() -> None:
    report = Report(attempt(), DONE)
    assert follow_up(report, Superseded()) == Report(report.attempt, SUPERSEDED)
    assert follow_up(Report(report.attempt, SUPERSEDED), Superseded()) is None


def test_a_refused_failure_is_not_reported_again() -> None:
    report = Report(attempt(), failure("ValueError", "no", retryable=True))
    assert follow_up(report, Forbidden()) is None


def test_reporting_gives_up_when_its_patience_ends() -> None:
    def send(_bodies: object) -> list[TraceError | None]:
        raise Unavailable

    assert not report_until_settled(Report(attempt(), DONE), send, patience=0.2)
