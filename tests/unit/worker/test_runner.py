from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from functions.operator_runner import handler
from tests.unit.operators.payloads import make_payload
from tests.unit.worker.conftest import OPERATORS
from tests.unit.worker.platform_for_tests import (
    MemoryObjects,
    Platform,
    SystemClock,
    eventually,
    serve,
)
from trace_core.adapters.lite.processes import ProcessRuntime
from trace_core.kernel.errors import NotFound
from trace_core.operators.catalog import load_catalog
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.logs import AttemptLogs, SentLogs
from trace_core.worker.runner import Runner
from trace_core.worker.supervision import InThisProcess, Supervisor


@pytest.fixture
def api(url: str) -> Iterator[TaskApi]:
    client = HttpClient(url, timeout=5)
    yield TaskApi(client)
    client.close()


@pytest.fixture
def in_process(api: TaskApi) -> Runner:
    numbers = count()
    execution = InThisProcess(load_catalog([OPERATORS]), api)
    supervisor = Supervisor(execution, clock=SystemClock(), logs=SentLogs(api))
    return Runner(api, supervisor, new_runner_id=lambda: f"runner-{next(numbers)}")


def reserve(platform: Platform, operator: str, config: Any = None, **changes: Any) -> Any:
    """A payload as it is sent with an invoke: a start token, and nothing to act with."""
    task = make_payload(operator, config, **changes)
    task["start_token"] = str(uuid4())
    platform.reserved[task["task_id"]] = task
    return {**task, "lease_token": None, "capability_token": None}


def test_a_start_token_is_exchanged_and_the_task_completed(
    platform: Platform, in_process: Runner
) -> None:
    payload = reserve(platform, "pass_on", trigger={"cursor": 5})
    assert in_process.run(payload) == "Completed"
    assert platform.completed[payload["task_id"]]["events"][0]["cursor"] == 5


def test_what_an_operator_prints_is_sent_to_the_platform(
    platform: Platform, in_process: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    quiet = reserve(platform, "pass_on", trigger={"cursor": 5})
    loud = reserve(platform, "shout", {"megabytes": 3})
    broken = reserve(platform, "fail", {"message": "the reason", "kind": "value"})
    for payload in (quiet, loud, broken):
        in_process.run(payload)
    assert quiet["task_id"] not in platform.logs
    log = platform.logs[loud["task_id"]]
    assert log.startswith("first line\n")
    assert log.endswith("last line\n")
    assert len(log) < 1.1 * 1024 * 1024
    assert "ValueError" in platform.logs[broken["task_id"]]
    assert "the reason" in platform.logs[broken["task_id"]]
    print("and after it everything is as before")
    assert capfd.readouterr().out == "and after it everything is as before\n"


def test_what_a_child_of_the_operator_prints_is_in_the_log_without_secrets(
    platform: Platform, in_process: Runner
) -> None:
    payload = reserve(platform, "echo_env", {"names": ["TRACE_TASK_CAPABILITY_TOKEN"]})
    in_process.run(payload)
    assert "TRACE_TASK_CAPABILITY_TOKEN=***" in platform.logs[payload["task_id"]]


def test_a_log_that_cannot_be_sent_does_not_fail_the_task(
    platform: Platform, in_process: Runner
) -> None:
    platform.outages["/v1/task/logs"] = [NotFound("gone")]
    payload = reserve(platform, "shout", {"megabytes": 1})
    assert in_process.run(payload) == "Completed"


def test_a_duplicate_invoke_runs_nothing(platform: Platform, in_process: Runner) -> None:
    payload = reserve(platform, "emit_mid_task", {"early": 1})
    assert in_process.run(payload) == "Completed"
    assert in_process.run(payload) == "NotClaimed: AlreadyRunning"
    assert len(platform.events) == 1


def test_a_cancel_reaches_the_operator_through_the_heartbeat(
    platform: Platform, in_process: Runner
) -> None:
    config = {"cooperative": True}
    payload = reserve(platform, "sleep", config, job={"heartbeat_seconds": 0.05})
    platform.canceled.add(payload["task_id"])
    assert in_process.run(payload) == "Canceled"
    assert platform.completed[payload["task_id"]]["status"] == "Canceled"


def test_a_lost_lease_is_not_reported(platform: Platform, in_process: Runner) -> None:
    payload = reserve(platform, "sleep", {"cooperative": True}, job={"heartbeat_seconds": 0.05})
    platform.stale.add(payload["task_id"])
    assert in_process.run(payload) == "LeaseLost"
    assert platform.completed == {}


def test_a_slot_with_secrets_is_refused_where_no_secrets_are_given(
    platform: Platform, in_process: Runner
) -> None:
    slot = {"name": "one", "env": {}, "secrets": {"RPC_KEY": "rpc_key"}}
    payload = reserve(platform, "echo_env", slot=slot)
    assert in_process.run(payload) == "Failed"
    assert "gives no secrets" in platform.completed[payload["task_id"]]["error_message"]


def test_the_lambda_handler_runs_the_payload(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = SimpleNamespace(
        function_name="operator_runner",
        memory_limit_in_mb=128,
        invoked_function_arn="arn",
        aws_request_id="request",
    )
    # Connections are not kept here, since nobody closes them before the function is frozen.
    with serve(platform, keep_alive=False) as url:
        monkeypatch.setenv("TRACE_TASK_API_URL", url)
        monkeypatch.setenv("TRACE_OPERATOR_MODULES", OPERATORS)
        handler.runner.cache_clear()
        payload = reserve(platform, "pass_on", trigger={"cursor": 5})
        assert handler.handler(payload, context) == {"status": "Completed"}
        handler.runner.cache_clear()
    keys = handler.logger.get_current_keys()
    assert keys["task"] == payload["task_id"]
    assert (keys["job"], keys["attempt"]) == ("chain.pass_on", 1)


def test_on_one_machine_the_operator_runs_in_a_child_and_its_death_is_reported(
    platform: Platform, url: str, api: TaskApi, tmp_path: Any
) -> None:
    pool = ChildPool(1, modules=[OPERATORS], task_api=url)
    objects = MemoryObjects()
    supervisor = Supervisor(pool, clock=SystemClock(), logs=AttemptLogs(objects))
    runner = Runner(api, supervisor, new_runner_id=lambda: str(uuid4()))
    runtime = ProcessRuntime(runner, concurrency=1)
    crash = reserve(platform, "crash_once", {"marker": str(tmp_path / "x")})
    after = reserve(platform, "emit_mid_task", {"early": 2})
    try:
        runtime.start(crash)
        runtime.start(after)
        dead, done = platform.wait_for(crash, after)
    finally:
        runtime.close()
        pool.close()
    assert (dead["error_code"], done["status"]) == ("ChildDied", "Completed")
    assert "SIGKILL" in dead["error_message"]
    assert len(platform.events) == 2
    assert any(crash["task_id"] in key for key in objects.objects)


def test_closing_the_runtime_hands_back_what_runs(
    platform: Platform, url: str, api: TaskApi, tmp_path: Any
) -> None:
    pool = ChildPool(1, modules=[OPERATORS], task_api=url)
    supervisor = Supervisor(pool, clock=SystemClock())
    runner = Runner(api, supervisor, new_runner_id=lambda: str(uuid4()))
    runtime = ProcessRuntime(runner, concurrency=1)
    marker = tmp_path / "pid"
    running = reserve(platform, "sleep", {"marker": str(marker)})
    waiting = reserve(platform, "pass_on", trigger={"cursor": 1})
    try:
        runtime.start(running)
        runtime.start(waiting)
        eventually(marker.exists)
        closing = threading.Thread(target=runtime.close, args=(0.1,))
        closing.start()
        closing.join(timeout=5)
        assert not closing.is_alive()
    finally:
        pool.close()
    assert platform.completed[running["task_id"]]["error_code"] == "WorkerStopped"
    # Not exchanged: its reservation lapses and is sent again.
    assert waiting["task_id"] not in platform.runners
