"""EMR Serverless: what is asked of it, and what its answers come to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from tests.conformance.aws_adapters import EMR
from tests.conformance.spark_runs import RunPlace, becomes
from tests.emr_service import EmrService, Refused, check_input
from trace_core.adapters.aws.emr_serverless import EmrServerlessRunner, run_name, start_fields
from trace_core.adapters.lite.local_spark import LocalSparkRunner
from trace_core.kernel.errors import Busy, Conflict, Denied, Invalid, NotFound, Unavailable
from trace_core.ports.spark_runner import RunState, SparkRunner

QUIET = {
    "rootLogger.level": "error",
    "logger.quotes0.name": "org.apache.spark.executor.Executor",
    "logger.quotes0.level": "off",
    "logger.quotes1.name": "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "logger.quotes1.level": "off",
    "logger.quotes2.name": "org.apache.spark.util.Utils",
    "logger.quotes2.level": "off",
}
"""What the service is to leave out of its logs: they would repeat statements and rows."""
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=10)


@pytest.fixture
def service(local_spark: LocalSparkRunner) -> Iterator[EmrService]:
    found = EmrService(local_spark)
    yield found
    found.close()


@pytest.fixture
def runner(service: EmrService) -> Iterator[SparkRunner]:
    with closing(EmrServerlessRunner(service.client(config=ONCE), EMR)) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> RunPlace:
    # Client tokens outlive a test in the runner behind the service.
    return RunPlace(tmp_path, f"emr-{abs(hash(request.node.name)) % 10**9}")


def _ended(runner: SparkRunner, run_id: str) -> RunState:
    return becomes(runner, run_id, RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED).state


def test_a_start_says_all_that_the_service_must_know(
    service: EmrService, runner: SparkRunner, place: RunPlace
) -> None:
    request = place.request("announce", timeout_seconds=61, queue_seconds=120)
    run_id = runner.start(request)
    [(operation, given)] = service.requests
    assert operation == "StartJobRun"
    policy = json.loads(given.pop("executionIamPolicy")["policy"])
    logs = f"{EMR.logs}{request.client_token}/"
    assert given == {
        "applicationId": EMR.application_id,
        "clientToken": request.client_token,
        "executionRoleArn": EMR.role_arn,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": EMR.entry_point,
                "entryPointArguments": [request.payload_uri],
                "sparkSubmitParameters": f"--conf spark.submit.pyFiles={EMR.code}",
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": logs}},
            "applicationConfiguration": [
                {"classification": "spark-driver-log4j2", "properties": QUIET},
                {"classification": "spark-executor-log4j2", "properties": QUIET},
            ],
        },
        "name": f"{request.name} {request.client_token}",
        "tags": {
            **request.tags,
            "trace-timeout-seconds": "61",
            "trace-queue-seconds": "120",
        },
        "executionTimeoutMinutes": 4,
        "retryPolicy": {"maxAttempts": 1},
    }
    writable = [each for each in policy["Statement"] if "s3:PutObject" in each["Action"]]
    assert [each["Resource"] for each in writable] == [
        f"arn:aws:s3:::{EMR.bucket}/{request.write_prefixes[0]}*",
        f"arn:aws:s3:::{logs.removeprefix('s3://')}*",
    ]
    assert _ended(runner, run_id) is RunState.SUCCESS


def test_a_start_whose_answer_is_lost_is_found_by_the_same_token(
    service: EmrService, runner: SparkRunner, place: RunPlace, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    request = place.request("rows", {"mark": str(mark)})
    service.lose_answers = 1
    with pytest.raises(Unavailable):
        runner.start(request)
    run_id = runner.start(request)
    assert _ended(runner, run_id) is RunState.SUCCESS
    assert mark.read_text() == "ran\n"


def test_a_token_that_began_a_run_with_older_code_finds_that_run(
    service: EmrService, runner: SparkRunner, place: RunPlace
) -> None:
    for _ in range(2):
        runner.start(place.request("announce"))
    request = place.request("announce")
    run_id = runner.start(request)
    with closing(
        EmrServerlessRunner(service.client(config=ONCE), replace(EMR, code="s3://assets/newer.zip"))
    ) as later:
        assert later.start(request) == run_id
    assert [name for name, _ in service.requests].count("ListJobRuns") == 3


def test_a_start_that_is_refused_after_it_was_taken_is_that_run(
    service: EmrService, runner: SparkRunner, place: RunPlace, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    request = place.request("rows", {"mark": str(mark)})
    service.lose_answers = 1
    with pytest.raises(Unavailable):
        runner.start(request)
    service.fail_with = [Refused("ValidationException", 400, "the application was stopped")]
    assert _ended(runner, runner.start(request)) is RunState.SUCCESS
    assert mark.read_text() == "ran\n"


def test_a_token_that_is_taken_without_a_run_to_show_is_a_conflict(
    service: EmrService, runner: SparkRunner, place: RunPlace
) -> None:
    service.fail_with = [Refused("ConflictException", 409)]
    with pytest.raises(Conflict):
        runner.start(place.request("announce"))


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ThrottlingException", 429, Unavailable),
        ("InternalServerException", 500, Unavailable),
        ("AccessDeniedException", 403, Denied),
        ("ServiceQuotaExceededException", 402, Busy),
        ("ValidationException", 400, Invalid),
        ("ResourceNotFoundException", 404, Denied),
    ],
)
def test_a_start_that_is_refused_says_whether_another_try_helps(
    service: EmrService,
    runner: SparkRunner,
    place: RunPlace,
    code: str,
    status: int,
    expected: type[Exception],
) -> None:
    service.fail_with = [Refused(code, status, "quotes s3://what-we-sent")]
    with pytest.raises(expected) as caught:
        runner.start(place.request("announce"))
    assert "what-we-sent" not in str(caught.value)


@pytest.mark.parametrize("run_id", ["", "../jobruns", "00F", "0" * 65])
def test_a_run_id_of_another_form_is_not_sent(
    service: EmrService, runner: SparkRunner, run_id: str
) -> None:
    with pytest.raises(NotFound):
        runner.status(run_id)
    assert not service.requests


def test_a_cancel_that_is_refused_for_a_run_that_goes_on_is_an_error(
    service: EmrService, runner: SparkRunner, place: RunPlace
) -> None:
    run_id = runner.start(place.request("spin"))
    service.fail_with = [Refused("ValidationException", 400)]
    with pytest.raises(Denied):
        runner.cancel(run_id)
    runner.cancel(run_id)
    assert _ended(runner, run_id) is RunState.CANCELLED


def test_many_starts_of_one_token_at_once_are_one_run(
    service: EmrService, place: RunPlace, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    request = place.request("rows", {"mark": str(mark)})
    found: list[str] = []

    def start() -> None:
        with closing(EmrServerlessRunner(service.client(config=ONCE), EMR)) as one:
            found.append(one.start(request))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    with closing(EmrServerlessRunner(service.client(config=ONCE), EMR)) as one:
        assert _ended(one, found[0]) is RunState.SUCCESS
    assert mark.read_text() == "ran\n"


def test_a_long_name_keeps_the_token_by_which_it_is_found(place: RunPlace) -> None:
    request = place.request("announce", name="n" * 500, client_token="t" * 64)
    assert len(run_name(request)) <= 256
    assert run_name(request).endswith(f" {request.client_token}")


@pytest.mark.parametrize(
    "change",
    [
        {"clientToken": "not a token"},
        {"executionTimeoutMinutes": 10**7},
        {"executionRoleArn": "arn:aws:iam::1:user/somebody-else"},
        {"queueTimeoutMinutes": 5},
    ],
)
def test_the_service_of_these_tests_refuses_what_the_real_one_would(
    place: RunPlace, change: dict[str, Any]
) -> None:
    given = start_fields(EMR, place.request("announce"))
    check_input("StartJobRun", given)
    with pytest.raises(Refused):
        check_input("StartJobRun", {**given, **change})
