"""Workers that have HTTP only: the internal API waits for them, and tells them when to claim."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import CHAIN, OPERATORS, Org
from trace_cli.platform import Choices, Platform, Worker
from trace_core import telemetry
from trace_core.adapters.lite.arrivals import QueueArrivals
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import Ids
from trace_core.ports.queue import wake_queue
from trace_core.settings import Settings
from trace_core.worker.client import HttpClient, WorkerApi

LONG = timedelta(seconds=20)


@pytest.fixture(autouse=True)
def log() -> Iterator[io.StringIO]:
    target = io.StringIO()
    with telemetry.redirected(target, metrics=True):
        yield target


@pytest.fixture
def arrivals(state_dsn: str) -> Iterator[QueueArrivals]:
    arrivals = QueueArrivals(state_dsn)
    yield arrivals
    arrivals.close()


@pytest.fixture
def queue(state_database: StateDatabase, manual_clock: ManualClock, ids: Ids) -> Iterator[PgQueue]:
    queue = PgQueue(state_database, manual_clock, ids)
    yield queue
    queue.close()


def _settled(arrivals: QueueArrivals, queue: str) -> int:
    """What was seen once the listener is connected, which counts as an arrival of its own."""
    seen = arrivals.next(queue, 0, timedelta(seconds=10))
    assert seen == 1
    return seen


def test_a_wait_ends_with_the_first_message_of_its_queue_and_of_no_other(
    arrivals: QueueArrivals, queue: PgQueue
) -> None:
    seen = _settled(arrivals, "mine")
    queue.send("others", [{}])
    assert arrivals.next("mine", seen, timedelta(seconds=0.2)) == seen
    with ThreadPoolExecutor(1) as waiting:
        found = waiting.submit(arrivals.next, "mine", seen, LONG)
        time.sleep(0.1)
        sent_at = time.monotonic()
        queue.send("mine", [{}])
        assert found.result(timeout=10) == seen + 1
        assert time.monotonic() - sent_at < 2


def test_what_arrives_between_two_waits_ends_the_next_one_at_once(
    arrivals: QueueArrivals, queue: PgQueue
) -> None:
    seen = _settled(arrivals, "mine")
    queue.send("mine", [{}])
    assert arrivals.next("mine", seen, LONG) == seen + 1


def test_whoever_waits_when_the_platform_stops_waits_no_longer(arrivals: QueueArrivals) -> None:
    seen = _settled(arrivals, "mine")
    with ThreadPoolExecutor(1) as waiting:
        found = waiting.submit(arrivals.next, "mine", seen, LONG)
        time.sleep(0.1)
        arrivals.close()
        assert found.result(timeout=5) is None
    assert arrivals.next("mine", None, LONG) is None


def test_the_route_hears_of_the_callers_org_and_its_wait_is_no_latency(
    state_database: StateDatabase,
    tmp_path: Path,
    manual_clock: ManualClock,
    ids: Ids,
    log: io.StringIO,
) -> None:
    alpha, beta = (
        Org(name, tmp_path, state_database, manual_clock, ids) for name in ("alpha", "beta")
    )
    own = QueueArrivals(state_database.dsn)
    alpha.app.parts["arrivals"] = beta.app.parts["arrivals"] = own
    try:
        seen = _settled(own, wake_queue(Runtime.WORKER, beta.org_id))
        alpha.deploy()
        alpha.app.relay.run_once()
        path = f"/internal/wake-ups?seen={seen}"
        assert alpha.ok("GET", f"{path}&wait_seconds=20") == {"seen": seen + 1}
        assert beta.ok("GET", f"{path}&wait_seconds=0.1") == {"seen": seen}
        assert "Latency" in log.getvalue()
        log.truncate(0)
        alpha.ok("GET", "/internal/wake-ups")
        assert "Requests" in log.getvalue()
        assert "Latency" not in log.getvalue()
        for wrong in ("wait_seconds=21", "wait_seconds=-1", "wait_seconds=nan", "seen=-1", "x=1"):
            assert alpha.call("GET", f"/internal/wake-ups?{wrong}")[0] == 422
    finally:
        for org in (alpha, beta):
            org.app.queue.close()  # type: ignore[attr-defined]
        own.close()


@pytest.fixture
def settings(state_dsn: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        operator_modules=(OPERATORS,),
        user_port=0,
        internal_port=0,
        task_port=0,
    )


def test_a_worker_with_http_only_is_woken_and_needs_no_poll_and_no_schedule(
    settings: Settings,
) -> None:
    choices = Choices(children=0, schedules=False)
    with Platform(settings, choices) as platform:
        app = platform.app
        worker = Worker(app, app.worker_token, Choices(children=1), poll_seconds=3600)
        worker.start()
        try:
            app.deploys.deploy(app.own_org, CHAIN, "chain.yaml", SYSTEM)
            ends_at = time.monotonic() + 30
            while _completed(platform).get("follow") != 20:
                assert time.monotonic() < ends_at, "it did not happen in time"
                time.sleep(0.05)
        finally:
            worker.stop()


def _completed(platform: Platform) -> dict[str, Any]:
    status = platform.app.views.status(platform.app.own_org)
    return {each["job"]: each["completed_24h"] for each in status["jobs"]}


def test_a_platform_with_a_waiting_worker_stops_at_once(settings: Settings) -> None:
    with Platform(settings, Choices(children=0)) as platform:
        client = HttpClient(platform.servers[1].url, platform.app.worker_token, timeout=30)
        api = WorkerApi(client)
        seen = api.wake_ups(0, 10)
        answers: list[int | None] = []
        waiting = threading.Thread(target=lambda: answers.append(api.wake_ups(seen, 20)))
        waiting.start()
        time.sleep(0.2)
        started = time.monotonic()
    assert time.monotonic() - started < 4
    waiting.join(5)
    client.close()
    assert answers == [None]
