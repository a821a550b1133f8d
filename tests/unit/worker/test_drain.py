"""A worker that is woken for a while: what it takes, when it ends, what it leaves to others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.unit.operators.payloads import make_payload
from tests.unit.worker.platform_for_tests import (
    WORKER_TOKEN,
    MemoryObjects,
    MemorySecrets,
    Platform,
    SystemClock,
)
from trace_core.kernel.errors import Unavailable
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, WorkerApi
from trace_core.worker.drain import Drain, Drained
from trace_core.worker.logs import AttemptLogs


@pytest.fixture
def drain(url: str, pool: ChildPool) -> Iterator[Drain]:
    client = HttpClient(url, WORKER_TOKEN, timeout=5)
    yield Drain(
        WorkerApi(client),
        pool,
        worker_id="lambda:1",
        secrets=MemorySecrets(),
        logs=AttemptLogs(MemoryObjects()),
        clock=SystemClock(),
    )
    client.close()


def test_everything_that_waits_is_done_and_reported_before_it_ends(
    platform: Platform, drain: Drain
) -> None:
    tasks = [make_payload("pass_on", trigger={"cursor": cursor}) for cursor in range(25)]
    platform.waiting.extend(tasks)
    assert drain.run(60) == Drained(25, more=False)
    assert len(platform.completed) == 25


def test_with_nothing_to_do_it_ends_at_once(platform: Platform, drain: Drain) -> None:
    started = time.monotonic()
    assert drain.run(60) == Drained(0, more=False)
    assert time.monotonic() - started < 2


def test_after_the_time_for_claims_it_leaves_the_rest_to_whoever_is_woken_next(
    platform: Platform, drain: Drain, pool: ChildPool
) -> None:
    tasks = [make_payload("pass_on", trigger={"cursor": cursor}) for cursor in range(50)]
    platform.waiting.extend(tasks)
    drained = drain.run(60, claim_seconds=0.02)
    assert drained.more
    assert 0 < drained.claimed < 50
    assert len(platform.completed) == drained.claimed, "what was claimed was finished"
    assert len(platform.waiting) == 50 - drained.claimed


def test_what_runs_too_long_is_stopped_and_reported_as_worth_another_attempt(
    platform: Platform, drain: Drain
) -> None:
    task = make_payload("sleep", {"seconds": 60})
    platform.waiting.append(task)
    assert drain.run(2) == Drained(1, more=True)
    completed = platform.completed[task["task_id"]]
    assert (completed["error_code"], completed["retryable"]) == ("WorkerStopped", True)


def test_a_claim_that_nobody_answers_is_raised_so_that_the_wake_up_comes_again(
    platform: Platform, drain: Drain
) -> None:
    platform.outages["/internal/task-claim"].append(Unavailable())
    with pytest.raises(Unavailable):
        drain.run(60)


def test_a_claim_that_nobody_answers_does_not_stop_what_runs(
    platform: Platform, drain: Drain
) -> None:
    slow = make_payload("sleep", {"seconds": 0.5})
    platform.waiting.append(slow)
    quick = make_payload("pass_on", trigger={"cursor": 1})
    platform.waiting.append(quick)
    platform.outages["/internal/task-claim"] += [None, Unavailable()]  # type: ignore[list-item]
    assert drain.run(60).claimed == 2
    assert platform.completed[slow["task_id"]]["status"] == "Completed"
