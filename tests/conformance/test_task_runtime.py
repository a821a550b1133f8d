"""What every task runtime must do: a payload arrives whole, and nobody waits for its run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance.recorder import recording
from tests.fault_proxy import FaultProxy
from tests.localstack_server import LocalStack
from trace_core.adapters.aws.calls import CONFIG
from trace_core.adapters.aws.lambda_functions import LambdaRuntime, reference
from trace_core.adapters.lite.processes import ProcessRuntime
from trace_core.kernel.errors import Unavailable
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.worker.attempt import RunControl
from trace_core.worker.runner import Runner


@dataclass
class RuntimeHarness:
    runtime: TaskRuntime
    arrived: Callable[[], list[Mapping[str, Any]]]
    """The payloads of all runs so far."""
    hold: Callable[[], None]
    """From now on, runs do not end before `release`."""
    release: Callable[[], None]
    make_unavailable: Callable[[], None]
    patience: float = 5.0
    whole: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda payload: payload
    """What arrives of a payload: itself, or what names it where it does not fit."""

    def runs_of(self, payload: Mapping[str, Any], count: int) -> list[Mapping[str, Any]]:
        """The runs of this payload, once there are so many."""
        give_up_at = time.monotonic() + self.patience
        while True:
            found = [run for run in self.arrived() if run["task_id"] == payload["task_id"]]
            if len(found) >= count:
                return found
            assert time.monotonic() < give_up_at, f"{len(found)} of {count} runs arrived"
            time.sleep(0.01)


@contextmanager
def _processes(_request: pytest.FixtureRequest | None = None) -> Iterator[RuntimeHarness]:
    arrived: list[Mapping[str, Any]] = []
    gate = threading.Event()
    gate.set()

    class RecordingRunner(Runner):
        def __init__(self) -> None:
            """Nothing to talk to: this suite is about what arrives."""

        def run(self, payload: Mapping[str, Any], control: RunControl | None = None) -> str:
            arrived.append(payload)
            gate.wait(timeout=10)
            return "Completed"

    runtime = ProcessRuntime(RecordingRunner(), concurrency=2, backlog=50)
    try:
        yield RuntimeHarness(
            runtime=runtime,
            arrived=lambda: list(arrived),
            hold=gate.clear,
            release=gate.set,
            make_unavailable=runtime.close,
        )
    finally:
        gate.set()
        runtime.close()


@contextmanager
def _lambda_functions(request: pytest.FixtureRequest) -> Iterator[RuntimeHarness]:
    localstack: LocalStack = request.getfixturevalue("localstack")
    proxy = FaultProxy(localstack.endpoint)
    client = localstack.session.client("lambda", config=CONFIG, endpoint_url=proxy.endpoint)
    with recording(localstack) as recorder, ExitStack() as stack:
        yield RuntimeHarness(
            runtime=LambdaRuntime(client, recorder.deploy("runs")),
            arrived=lambda: recorder.calls("runs"),
            hold=recorder.hold,
            release=recorder.release,
            make_unavailable=lambda: stack.enter_context(proxy.outage()),
            patience=20.0,
            whole=lambda payload: reference(payload) if size(payload) > 256 * 1024 else payload,
        )
    proxy.close()


RUNTIMES = {"processes": _processes, "lambda": _lambda_functions}


@pytest.fixture(params=RUNTIMES)
def runtimes(request: pytest.FixtureRequest) -> Iterator[RuntimeHarness]:
    with RUNTIMES[request.param](request) as harness:
        yield harness


def make_payload(**changes: Any) -> dict[str, Any]:
    return {
        "task_id": str(uuid4()),
        "attempt": 1,
        "start_token": str(uuid4()),
        "org_id": str(uuid4()),
        "job": {"dag_name": "chain", "name": "pass_on", "timeout_seconds": 30},
        "operator": "pass_on",
        "config": {},
        "trigger": None,
        "capability_token": None,
        **changes,
    }


def test_a_payload_arrives_whole_and_exactly_as_it_was_sent(runtimes: RuntimeHarness) -> None:
    config = {
        "text": 'ü 失敗 \U0001f4a5 "quoted" \\ \n',
        "large": 2**63 - 1,
        "nothing": None,
        "nested": [{"a": [1, 2.5, False]}, {}],
        "long": "x" * 100_000,
    }
    payload = make_payload(config=config)
    runtimes.runtime.start(payload)
    assert runtimes.runs_of(payload, 1) == [payload]


def size(payload: Mapping[str, Any]) -> int:
    return len(json.dumps(payload, separators=(",", ":")))


@pytest.mark.parametrize("over", [-1, 0, 1, 300_000])
def test_a_payload_around_256_kb_and_over_it_arrives(runtimes: RuntimeHarness, over: int) -> None:
    payload = make_payload(config={"long": ""})
    payload["config"]["long"] = "x" * (256 * 1024 + over - size(payload))
    runtimes.runtime.start(payload)
    [arrived] = runtimes.runs_of(payload, 1)
    assert arrived == runtimes.whole(payload)
    for name in ("task_id", "start_token", "org_id", "attempt"):
        assert arrived[name] == payload[name], "enough for the exchange, which answers the rest"


def test_a_payload_is_taken_as_it_was_at_the_start(runtimes: RuntimeHarness) -> None:
    runtimes.hold()
    payload = make_payload(config={"list": [1]})
    sent = make_payload(**{**payload, "config": {"list": [1]}})
    runtimes.runtime.start(payload)
    payload["config"]["list"].append(2)
    payload["operator"] = "another"
    runtimes.release()
    assert runtimes.runs_of(sent, 1) == [sent]


def test_start_returns_before_the_run_ends(runtimes: RuntimeHarness) -> None:
    runtimes.hold()
    payload = make_payload()
    began = time.monotonic()
    runtimes.runtime.start(payload)
    assert time.monotonic() - began < runtimes.patience
    runtimes.runs_of(payload, 1)
    runtimes.release()


def test_more_payloads_than_run_at_once_all_run_in_the_end(runtimes: RuntimeHarness) -> None:
    runtimes.hold()
    payloads = [make_payload() for _ in range(20)]
    for payload in payloads:
        runtimes.runtime.start(payload)
    runtimes.release()
    for payload in payloads:
        runtimes.runs_of(payload, 1)


def test_the_same_payload_may_be_started_again(runtimes: RuntimeHarness) -> None:
    payload = make_payload()
    runtimes.runtime.start(payload)
    runtimes.runtime.start(payload)
    assert runtimes.runs_of(payload, 2) == [payload, payload]


def test_a_runtime_that_cannot_take_a_payload_says_unavailable(runtimes: RuntimeHarness) -> None:
    runtimes.make_unavailable()
    payload = make_payload()
    with pytest.raises(Unavailable):
        runtimes.runtime.start(payload)


def test_a_full_process_runtime_says_unavailable_and_recovers() -> None:
    with _processes() as harness:
        harness.hold()
        for _ in range(52):
            harness.runtime.start(make_payload())
        with pytest.raises(Unavailable, match="as much work"):
            harness.runtime.start(make_payload())
        harness.release()
        payload = make_payload()
        give_up_at = time.monotonic() + harness.patience
        while True:
            try:
                harness.runtime.start(payload)
                break
            except Unavailable:
                assert time.monotonic() < give_up_at
                time.sleep(0.01)
        harness.runs_of(payload, 1)
