"""Payloads in a folder of objects, and what becomes of their runs."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_core.kernel.scopes import Scope
from trace_core.ports.spark_runner import RunRequest, RunState, RunStatus, SparkRunner
from trace_core.spark.wire import LOG_NAME, SparkOutput, SparkPayload, SparkResult

_NUMBERS = itertools.count(1)
PATIENCE = 120.0
"""For a session that starts on a machine with much else to do."""


@dataclass(frozen=True)
class RunPlace:
    """The objects of one test."""

    objects: Path
    name: str

    def request(
        self, operator: str, config: Mapping[str, Any] | None = None, **changes: Any
    ) -> RunRequest:
        number = next(_NUMBERS)
        payload = SparkPayload(
            task_id="0193f000-0000-7000-8000-000000000001",
            attempt=1,
            dag="chain",
            job="work",
            operator=operator,
            implementation=operator if ":" in operator else f"tests.runner_operators:{operator}",
            config=config or {},
            now="2026-01-15T12:00:00+00:00",
            scope=Scope(),
            trigger=None,
            inputs=(),
            outputs=(SparkOutput(0, f"file://{self.folder(number)}/output/"),),
            result_uri=f"file://{self.folder(number)}/result.json",
        )
        path = self.folder(number) / "payload.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(payload.fields()))
        key = f"runs/{self.name}/{number}/"
        given: dict[str, Any] = {
            "client_token": f"{self.name}-{number}",
            "name": f"{operator.rpartition(':')[2]} {number}",
            "payload_uri": f"file://{path}",
            "read_prefixes": (key,),
            "write_prefixes": (f"{key}output/",),
            "timeout_seconds": 600,
            "queue_seconds": 600,
            "tags": {"task": "0193f000-0000-7000-8000-000000000001"},
        }
        return RunRequest(**{**given, **changes})

    def folder(self, number: int) -> Path:
        return self.objects / "runs" / self.name / str(number)

    def result(self, request: RunRequest) -> SparkResult | None:
        path = Path(request.payload_uri.removeprefix("file://")).with_name("result.json")
        return SparkResult.parse(json.loads(path.read_text())) if path.exists() else None

    def printed(self, request: RunRequest) -> str:
        path = Path(request.payload_uri.removeprefix("file://")).with_name(LOG_NAME)
        return path.read_text()


@dataclass(frozen=True)
class SparkRunnerHarness:
    runner: SparkRunner
    another: Callable[[], AbstractContextManager[SparkRunner]]
    """The same service as another process of the platform sees it."""
    place: RunPlace
    counts_what_it_holds: bool = True
    """Otherwise whoever starts runs keeps to a limit of its own."""
    started: list[str] = field(default_factory=list)

    def start(self, operator: str, config: Mapping[str, Any] | None = None, **changes: Any) -> str:
        return self.begin(self.place.request(operator, config, **changes))

    def begin(self, request: RunRequest) -> str:
        run_id = self.runner.start(request)
        self.started.append(run_id)
        return run_id

    def becomes(self, run_id: str, *states: RunState) -> RunStatus:
        return becomes(self.runner, run_id, *states)

    def ended(self, run_id: str) -> RunStatus:
        return self.becomes(run_id, RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED)

    def end_all(self) -> None:
        """Leave the runner free for the next test."""
        for run_id in self.started:
            self.runner.cancel(run_id)
        for run_id in self.started:
            self.ended(run_id)


def becomes(runner: SparkRunner, run_id: str, *states: RunState) -> RunStatus:
    deadline = time.monotonic() + PATIENCE
    while (found := runner.status(run_id)).state not in states:
        assert time.monotonic() < deadline, found
        assert not found.state.has_ended, found
        time.sleep(0.02)
    return found
