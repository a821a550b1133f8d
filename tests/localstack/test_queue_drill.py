"""Drill: the queue breaks, throttles, repeats and reorders. Work waits in sight, none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.conformance.aws_adapters import queue_with_dead_letters
from tests.fault_proxy import FaultProxy
from tests.localstack_server import LocalStack
from tests.postgres.lite_app import CHAIN, OPERATORS, UNLIMITED
from tests.postgres.test_lite import call, completed, wait_for
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.adapters.aws.calls import CONFIG
from trace_core.adapters.aws.sqs import SqsQueue
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.ports.queue import wake_queue
from trace_core.settings import Settings

DONE = {"follow": 20, "tail": 20}


@dataclass(frozen=True)
class Drill:
    platform: Platform
    proxy: FaultProxy
    queue: SqsQueue
    name: str

    def deploy(self) -> None:
        body = {"text": CHAIN, "filename": "chain.yaml"}
        assert call(self.platform, "POST", "/v1/dags", body)[0] == 201

    def waiting(self) -> int:
        """Rows of the outbox that people see."""
        rows: list[Any] = call(self.platform, "GET", "/v1/outbox")[1]["rows"]
        return len(rows)

    def is_empty(self) -> bool:
        depth = self.queue.depth(self.name)
        return (depth.visible, depth.dead) == (0, 0)


@pytest.fixture
def drill(localstack: LocalStack, state_dsn: str, tmp_path: Path) -> Iterator[Drill]:
    settings = Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        operator_modules=(OPERATORS,),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        **UNLIMITED,
    )
    app = App(settings)
    name = wake_queue(Runtime.WORKER, app.own_org)
    app.close()
    queue_with_dead_letters(localstack.session.client("sqs"), name)
    proxy = FaultProxy(localstack.endpoint)
    client = localstack.session.client("sqs", config=CONFIG, endpoint_url=proxy.endpoint)
    queue = SqsQueue(client)
    choices = Choices(children=2, sweep_seconds=1, dispatch_seconds=1)
    with (
        (tmp_path / "log").open("w") as file,
        telemetry.redirected(file),
        Platform(settings, choices, queue=queue) as platform,
    ):
        yield Drill(platform, proxy, queue, name)
    proxy.close()


def test_without_faults_the_chain_runs_on_sqs(drill: Drill) -> None:
    drill.deploy()
    wait_for(lambda: completed(drill.platform) == DONE)
    wait_for(drill.is_empty)


def test_a_queue_that_is_away_holds_wake_ups_back_in_sight_and_they_drain(drill: Drill) -> None:
    with drill.proxy.outage():
        drill.deploy()
        wait_for(lambda: drill.waiting() > 0)
        wait_for(lambda: drill.proxy.failed > 3)
    wait_for(lambda: completed(drill.platform) == DONE, 60)
    wait_for(lambda: drill.waiting() == 0)
    wait_for(drill.is_empty)


@pytest.mark.parametrize("fault", ["throttled", "unruly"])
def test_a_queue_that_throttles_repeats_and_reorders_loses_nothing(
    drill: Drill, fault: str
) -> None:
    faults: dict[str, AbstractContextManager[None]] = {
        "throttled": drill.proxy.throttled(0.7),
        "unruly": drill.proxy.unruly(repeat=0.6, delay_seconds=0.6),
    }
    with faults[fault]:
        drill.deploy()
        wait_for(lambda: completed(drill.platform) == DONE, 60)
    if fault == "throttled":
        assert drill.proxy.failed > 0
    else:
        assert drill.proxy.repeated > 0
    wait_for(lambda: drill.waiting() == 0)
    wait_for(drill.is_empty)
    assert completed(drill.platform) == DONE, "a wake-up that came twice ran nothing twice"
