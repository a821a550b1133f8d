from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.egress.provider import gateway, provider, upstream
from tests.unit.operators.payloads import ORG, make_payload
from tests.unit.worker.conftest import OPERATORS
from tests.unit.worker.platform_for_tests import (
    WORKER_TOKEN,
    MemoryObjects,
    MemoryQueue,
    MemorySecrets,
    Platform,
    SystemClock,
    eventually,
)
from trace_core.egress.gateway import EgressGateway
from trace_core.kernel.errors import Invalid, Unauthenticated, Unavailable
from trace_core.tasks.api import Completion
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, WorkerApi
from trace_core.worker.logs import AttemptLogs
from trace_core.worker.wake_ups import QueueWakeUps
from trace_core.worker.wrapper import Wrapper, WrapperSettings

QUEUE = "hints"


class Worker:
    """A wrapper in a thread, with everything around it."""

    def __init__(
        self, url: str, pool: ChildPool, egress: EgressGateway | None = None, **settings: Any
    ) -> None:
        self.queue = MemoryQueue()
        self.objects = MemoryObjects()
        self.secrets = MemorySecrets(rpc_key="s3cr3t/välue")
        self.client = HttpClient(url, WORKER_TOKEN, timeout=5)
        self.wrapper = Wrapper(
            WorkerApi(self.client),
            pool,
            wake_ups=QueueWakeUps(self.queue, QUEUE),
            secrets=self.secrets,
            logs=AttemptLogs(self.objects),
            clock=SystemClock(),
            egress=egress,
            settings=WrapperSettings(
                **{
                    "worker_id": "test",
                    "poll_seconds": 0.1,
                    "listen_seconds": 0.1,
                    "cancel_grace_seconds": 0.2,
                    "stop_grace_seconds": 5.0,
                    **settings,
                }
            ),
        )
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.wrapper.run()
        except BaseException as error:
            self.error = error

    def log(self, task: dict[str, Any]) -> str:
        key = f"org/{ORG}/logs/{task['task_id']}/{task['attempt']}-{task['lease_sequence']}.log"
        return self.objects.objects[key].decode()


@contextmanager
def working(url: str, pool: ChildPool, **settings: Any) -> Iterator[Worker]:
    worker = Worker(url, pool, **settings)
    worker.thread.start()
    try:
        yield worker
    finally:
        worker.wrapper.stop()
        worker.thread.join(timeout=15)
        worker.client.close()
        assert not worker.thread.is_alive()


def pass_on(cursor: int = 1) -> dict[str, Any]:
    return make_payload("pass_on", trigger={"cursor": cursor})


def test_tasks_are_claimed_run_and_completed(platform: Platform, url: str, pool: ChildPool) -> None:
    tasks = [pass_on(cursor) for cursor in range(30)]
    platform.waiting.extend(tasks)
    with working(url, pool):
        completed = platform.wait_for(*tasks)
    assert [each["events"][0]["cursor"] for each in completed] == list(range(30))
    limits = [body["limit"] for path, body in platform.calls if path == "/internal/task-claim"]
    assert max(limits) <= pool.size


def test_a_wake_up_starts_work_long_before_the_next_poll(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    with working(url, pool, poll_seconds=60) as worker:
        eventually(lambda: platform.calls)
        task = pass_on()
        platform.waiting.append(task)
        worker.queue.send(QUEUE, [{"task_id": task["task_id"]}])
        platform.wait_for(task, timeout=3)
        eventually(lambda: worker.queue.deleted)


def test_without_a_queue_polling_still_finds_the_work(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    with working(url, pool) as worker:
        worker.queue.broken = True
        task = pass_on()
        platform.waiting.append(task)
        platform.wait_for(task)


def test_a_failed_task_is_reported_with_its_reason_and_its_log_ends_with_it(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = make_payload("fail", {"message": "no such block", "retryable": True})
    platform.waiting.append(task)
    with working(url, pool) as worker:
        (completed,) = platform.wait_for(task)
        log = worker.log(task)
    assert (completed["status"], completed["error_code"]) == ("Failed", "OperatorFailed")
    assert completed["retryable"]
    assert log.rstrip().endswith("OperatorFailed: no such block")


def test_a_dead_child_is_reported_at_once_and_the_next_task_runs(
    platform: Platform, url: str, pool: ChildPool, tmp_path: Path
) -> None:
    crash = make_payload("crash_once", {"marker": str(tmp_path / "crashed")})
    platform.waiting.append(crash)
    with working(url, pool) as worker:
        (completed,) = platform.wait_for(crash, timeout=3)
        assert completed["error_code"] == "ChildDied"
        assert "SIGKILL" in completed["error_message"]
        assert "about to crash" in worker.log(crash)
        after = pass_on()
        platform.waiting.append(after)
        platform.wait_for(after)


def test_a_task_over_its_time_is_killed_and_reported(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = make_payload("sleep", job={"timeout_seconds": 1})
    platform.waiting.append(task)
    with working(url, pool):
        (completed,) = platform.wait_for(task, timeout=5)
    assert (completed["error_code"], completed["retryable"]) == ("TimedOut", True)


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_canceled_task_ends_and_is_reported_as_canceled(
    platform: Platform, url: str, pool: ChildPool, cooperative: bool
) -> None:
    task = make_payload("sleep", {"cooperative": cooperative}, job={"heartbeat_seconds": 0.1})
    platform.canceled.add(task["task_id"])
    platform.waiting.append(task)
    with working(url, pool):
        (completed,) = platform.wait_for(task, timeout=5)
    assert completed["status"] == "Canceled"
    assert "events" not in completed


def test_each_running_task_beats_at_its_own_interval(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    fast = make_payload("sleep", {"seconds": 0.6}, job={"heartbeat_seconds": 0.1})
    slow = make_payload("sleep", {"seconds": 0.6}, job={"heartbeat_seconds": 10})
    platform.waiting.extend([fast, slow])
    with working(url, pool):
        platform.wait_for(fast, slow)
    assert platform.beats[fast["task_id"]] >= 3
    assert slow["task_id"] not in platform.beats


def test_an_attempt_whose_lease_is_lost_is_killed_and_reports_nothing(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = make_payload("sleep", job={"heartbeat_seconds": 0.1})
    platform.stale.add(task["task_id"])
    after = pass_on()
    platform.waiting.append(task)
    with working(url, pool):
        eventually(lambda: any(path == "/internal/heartbeat" for path, _ in platform.calls))
        platform.waiting.append(after)
        platform.wait_for(after)
    assert task["task_id"] not in platform.completed
    assert not any(
        path == "/internal/task-complete" and body.get("task_id") == task["task_id"]
        for path, body in platform.calls
    )


def test_a_completion_is_repeated_until_it_is_accepted(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = pass_on()
    platform.outages["/internal/task-complete"] = ["drop", "drop", Unavailable(), "drop"]
    platform.waiting.append(task)
    with working(url, pool):
        platform.wait_for(task)


def test_a_result_that_the_platform_refuses_becomes_a_failure(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = pass_on()
    platform.outages["/internal/task-complete"] = [Invalid("dataset is not yours")]
    platform.waiting.append(task)
    with working(url, pool):
        (completed,) = platform.wait_for(task)
    assert (completed["status"], completed["retryable"]) == ("Failed", False)
    assert "dataset is not yours" in completed["error_message"]


def test_claims_go_on_after_an_outage_of_the_platform(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = pass_on()
    platform.outages["/internal/task-claim"] = ["drop", "drop", Unavailable()]
    platform.waiting.append(task)
    with working(url, pool):
        platform.wait_for(task)


def test_a_refused_worker_token_ends_the_worker(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    platform.outages["/internal/task-claim"] = [Unauthenticated()]
    with working(url, pool) as worker:
        worker.thread.join(timeout=5)
    assert isinstance(worker.error, Unauthenticated)


def test_secrets_reach_the_operator_and_never_the_log_or_the_report(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    slot = {"name": "one", "env": {"RPC_URL": "http://rpc"}, "secrets": {"RPC_KEY": "rpc_key"}}
    task = make_payload("echo_env", {"fail": True}, slot=slot)
    platform.waiting.append(task)
    with working(url, pool) as worker:
        (completed,) = platform.wait_for(task)
        log = worker.log(task)
    assert "RPC_URL=http://rpc" in log
    assert "RPC_KEY=***" in log
    assert "'RPC_KEY': '***'" in completed["error_message"]
    for text in (log, completed["error_message"]):
        assert "s3cr3t" not in text
        assert "capability-token" not in text
        assert WORKER_TOKEN not in text


RPC_SLOT = {
    "name": "one",
    "env": {"RPC_UPSTREAM": "main"},
    "secrets": {"RPC_KEY": "rpc_key"},
}


def test_an_operator_calls_its_upstream_and_never_sees_the_key(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    asking = make_payload("ask_upstream", {"times": 3}, slot=RPC_SLOT)
    echoing = make_payload("echo_env", slot=RPC_SLOT)
    platform.waiting += [asking, echoing]
    with provider() as main, gateway(main=upstream(main)) as egress:
        with working(url, pool, egress=egress) as worker:
            asked, _ = platform.wait_for(asking, echoing)
            said, env = worker.log(asking), worker.log(echoing)
        assert [path for path, _, _ in main.seen] == ["/v2/s3cr3t%2Fv%C3%A4lue"] * 3
    assert said.count('told {"ok":true}') == 3
    assert (asked["egress"]["requests"], asked["egress"]["fault"]) == (3, None)
    assert "RPC_URL=http://127.0.0.1:" in env
    # The address is a secret too, as long as the attempt runs.
    assert "/***" in env
    for text in (said, env):
        assert "RPC_KEY" not in text
        assert "s3cr3t" not in text


def test_a_key_that_the_gateway_keeps_never_reaches_the_process_of_the_operator(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    slot = {**RPC_SLOT, "secrets": {"RPC_KEY": "rpc_key", "OTHER": "other"}}
    task = make_payload("ask_upstream", {"searches": True}, slot=slot)
    with (
        provider() as main,
        gateway(main=upstream(main)) as egress,
        working(url, pool, egress=egress) as worker,
    ):
        worker.secrets.values["other"] = "its-own"
        platform.waiting.append(task)
        platform.wait_for(task)
        found = worker.log(task)[::-1]
    assert "its-own" in found
    assert "s3cr3t" not in found


def test_a_report_says_whose_fault_the_end_is(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    limited = make_payload("ask_upstream", slot=RPC_SLOT)
    lied_to = make_payload("ask_upstream", {"blames": "untrue"}, slot=RPC_SLOT)
    odd = make_payload("ask_upstream", {"blames": "It lies, and how!"}, slot=RPC_SLOT)
    own_fault = make_payload("ask_upstream", {"times": 0, "blames": None}, slot=RPC_SLOT)
    with provider() as main:
        egress = EgressGateway({"main": upstream(main, limits={"retries": 0})})
        with working(url, pool, egress=egress):
            main.answers(429)
            platform.waiting.append(limited)
            platform.wait_for(limited)
            platform.waiting += [lied_to, odd, own_fault]
            platform.wait_for(lied_to, odd, own_fault)
        egress.close()
    first, second, third = platform.wait_for(limited, lied_to, own_fault)
    assert (first["status"], first["egress"]["fault"]) == ("Failed", "rate_limited")
    assert (second["egress"]["fault"], second["retryable"]) == ("untrue", True)
    assert (third["status"], "egress" in third) == ("Completed", False)
    # What no completion may carry would leave the attempt without an end.
    (fourth,) = platform.wait_for(odd)
    assert (fourth["status"], fourth["egress"]["fault"]) == ("Failed", "failed")
    Completion.model_validate_json(json.dumps(fourth))


def test_an_upstream_that_the_worker_does_not_have_fails_the_task_by_name(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = make_payload("ask_upstream", slot={**RPC_SLOT, "env": {"RPC_UPSTREAM": "other"}})
    platform.waiting.append(task)
    with (
        provider() as main,
        gateway(main=upstream(main)) as egress,
        working(url, pool, egress=egress),
    ):
        (completed,) = platform.wait_for(task)
    assert (completed["error_code"], completed["retryable"]) == ("Rejected", False)
    assert "upstream other" in completed["error_message"]


def test_a_missing_secret_fails_the_task_by_name(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    slot = {"name": "one", "env": {}, "secrets": {"RPC_KEY": "absent"}}
    task = make_payload("echo_env", slot=slot)
    platform.waiting.append(task)
    with working(url, pool):
        (completed,) = platform.wait_for(task)
    assert (completed["error_code"], completed["retryable"]) == ("NotFound", False)
    assert "absent" in completed["error_message"]


def test_a_log_store_that_is_away_fails_no_task(
    platform: Platform, url: str, pool: ChildPool
) -> None:
    task = make_payload("shout", {"megabytes": 1})
    platform.waiting.append(task)
    with working(url, pool) as worker:
        worker.objects.broken = True
        (completed,) = platform.wait_for(task)
    assert completed["status"] == "Completed"


def test_stopping_lets_running_tasks_finish_and_claims_nothing_more(
    platform: Platform, url: str, pool: ChildPool, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    task = make_payload("sleep", {"seconds": 0.5, "marker": str(marker)})
    platform.waiting.append(task)
    with working(url, pool) as worker:
        eventually(marker.exists)
        worker.wrapper.stop()
        platform.waiting.append(pass_on())
    assert platform.completed[task["task_id"]]["status"] == "Completed"
    assert len(platform.waiting) == 1


@pytest.mark.parametrize(
    ("activation", "status", "code"),
    [("reactive", "Failed", "WorkerStopped"), ("source", "Yielded", None)],
)
def test_what_does_not_finish_within_the_grace_is_handed_back(
    platform: Platform,
    url: str,
    pool: ChildPool,
    tmp_path: Path,
    activation: str,
    status: str,
    code: str | None,
) -> None:
    marker = tmp_path / "pid"
    task = make_payload("sleep", {"marker": str(marker)}, job={"activation": activation})
    platform.waiting.append(task)
    began = time.monotonic()
    with working(url, pool, stop_grace_seconds=0.2) as worker:
        eventually(marker.exists)
        worker.wrapper.stop()
    completed = platform.completed[task["task_id"]]
    assert (completed["status"], completed.get("error_code")) == (status, code)
    assert time.monotonic() - began < 5


def test_events_in_the_middle_of_a_task_use_the_capability_token(
    platform: Platform, url: str
) -> None:
    small = make_payload("emit_mid_task")
    large = make_payload("emit_mid_task", {"early": 0, "final": 2500})
    platform.waiting.extend([small, large])
    pool = ChildPool(2, modules=[OPERATORS], task_api=url)
    try:
        with working(url, pool) as worker:
            first, second = platform.wait_for(small, large)
            assert "emitted 3, ätsch" in worker.log(small)
    finally:
        pool.close()
    assert [event["cursor"] for event in first["events"]] == [3]
    # What does not fit one completion went ahead of it.
    assert len(second["events"]) == 1000
    early = [event["cursor"] for event in platform.events]
    assert sorted(early) == sorted([*range(3), *range(1500)])
