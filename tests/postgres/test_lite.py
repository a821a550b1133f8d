"""The whole platform on one machine, over loopback, with warm children and real Postgres."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from pydantic import SecretStr

from tests.postgres.lite_app import CHAIN, OPERATORS, UNLIMITED
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.settings import Settings


@pytest.fixture
def settings(state_dsn: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        operator_modules=(OPERATORS,),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        **UNLIMITED,
    )


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> Iterator[None]:
    with (tmp_path / "log").open("w") as file, telemetry.redirected(file):
        yield


def call(platform: Platform, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", platform.servers[0].port, timeout=10)
    headers = {
        "Authorization": f"Bearer {platform.app.user_token}",
        "Content-Type": "application/json",
    }
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def completed(platform: Platform) -> dict[str, int]:
    jobs = call(platform, "GET", "/v1/status")[1]["jobs"]
    return {each["job"]: each["completed_24h"] for each in jobs if each["completed_24h"]}


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> float:
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            pytest.fail("it did not happen in time")
        time.sleep(0.05)
    return time.monotonic() - started


def run_chain(platform: Platform) -> float:
    status, answer = call(platform, "POST", "/v1/dags", {"text": CHAIN, "filename": "chain.yaml"})
    assert (status, answer["created"]) == (201, True)
    return wait_for(lambda: completed(platform) == {"follow": 20, "tail": 20})


def test_with_schedules_off_push_alone_carries_everything(settings: Settings) -> None:
    choices = Choices(schedules=False, sweep_seconds=3600)
    with Platform(settings, choices) as platform:
        run_chain(platform)
        counts = platform.scheduler.counts
        assert counts["outbox_relay"].runs > 0
        # What listens looks once when it connects, and then only when it is told.
        assert counts["reaper"].runs == 0
        request = {"request": {"start": 1, "end": 10}}
        path = "/v1/dags/chain/jobs/history/trigger"
        assert call(platform, "POST", path, request)[0] == 202
        wait_for(lambda: bool(events_of_history(platform)))
        assert sum(each.failures for each in platform.scheduler.counts.values()) == 0


def events_of_history(platform: Platform) -> list[Any]:
    task = call(platform, "GET", "/v1/tasks?job=history")[1]["tasks"][0]
    events: list[Any] = call(platform, "GET", f"/v1/tasks/{task['task_id']}")[1]["events"]
    return events


def test_with_push_off_the_sweep_finds_everything(settings: Settings) -> None:
    choices = Choices(
        push=False, sweep_seconds=0.2, dispatch_seconds=0.2, reap_seconds=0.2, clean_seconds=0.2
    )
    with Platform(settings, choices) as platform:
        run_chain(platform)
        path = "/v1/dags/chain/jobs/history/trigger"
        call(platform, "POST", path, {"request": {"start": 1, "end": 10}})
        wait_for(lambda: bool(events_of_history(platform)))
        counts = platform.scheduler.counts
        assert all(each.runs > 0 and each.failures == 0 for each in counts.values())


def test_each_api_serves_its_own_routes_only(settings: Settings) -> None:
    with Platform(settings, Choices(children=0)) as platform:
        for server in platform.servers:
            for path in ("/v1/status", "/internal/task-claim", "/v1/task/heartbeat"):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                connection.request("GET" if path == "/v1/status" else "POST", path)
                status = connection.getresponse().status
                connection.close()
                own = {
                    "user_api": "/v1/status",
                    "internal_api": "/internal/task-claim",
                    "task_api": "/v1/task/heartbeat",
                }
                assert status == (401 if own[server.name] == path else 404)


def test_a_function_that_fails_is_counted_and_runs_again(settings: Settings) -> None:
    choices = Choices(children=0, sweep_seconds=0.1, reap_seconds=0.1, dispatch_seconds=0.1)
    with Platform(settings, choices) as platform:
        broken = platform.app.parts["reaper"] = _Broken(platform.app.reaper)
        wait_for(lambda: platform.scheduler.counts["reaper"].failures > 0)
        broken.heals()
        runs = platform.scheduler.counts["reaper"].runs
        wait_for(lambda: platform.scheduler.counts["reaper"].runs > runs + 1)
        wait_for(lambda: broken.called > 0)


class _Broken:
    called = 0

    def __init__(self, whole: Any) -> None:
        self._whole: Any = whole
        self._broken = True

    def heals(self) -> None:
        self._broken = False

    def run_once(self, limit: int) -> Any:
        if self._broken:
            raise RuntimeError("broken")
        self.called += 1
        return self._whole.run_once(limit)


def test_tokens_and_keys_belong_to_their_owner_alone(settings: Settings) -> None:
    with Platform(settings, Choices(children=0)) as platform:
        call(platform, "GET", "/v1/status")
        platform.app.signer.jwks()
        files = [*settings.home.glob("tokens/*"), *settings.home.glob("keys/*")]
        assert {file.name for file in files} >= {"worker.token", "task.pem", "issuer.pem"}
        for file in files:
            assert file.stat().st_mode & 0o077 == 0, file


def test_the_development_issuer_is_an_issuer_like_any_other_to_those_beside_it(
    settings: Settings, tmp_path: Path
) -> None:
    with Platform(settings, Choices(children=0)) as platform:
        assert platform.issuer is not None
        beside = Settings(home=tmp_path / "beside", oidc_issuer=platform.issuer.url)
        app = App(beside, state=platform.app.state)
        token = platform.app.development_token("bob", None, timedelta(minutes=1))
        assert app.user_tokens.verify(token).subject == "bob"
        assert call(platform, "GET", "/v1/me")[1]["role"] == "admin"


def test_trace_dev_starts_works_and_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "chain.yaml").write_text(CHAIN)
    environment = {
        **os.environ,
        "TRACE_HOME": str(tmp_path / "home"),
        "TRACE_OPERATOR_MODULES": OPERATORS,
        # It asks for the status again and again.
        **{f"TRACE_{name}_REQUESTS": "100000" for name in ("USER", "ORG")},
        **{f"TRACE_{name}_PORT": "0" for name in ("USER", "INTERNAL", "TASK", "ISSUER")},
    }
    environment.pop("TRACE_STATE_DSN", None)
    command = [sys.executable, "-c", "from trace_cli.main import main; main()"]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(
            [*command, "dev", "--deploy", "chain.yaml"],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            running = tmp_path / "home" / "dev.json"
            wait_for(lambda: running.exists() or process.poll() is not None, 60)
            said = (tmp_path / "out").read_text()
            assert process.poll() is None, said

            def status() -> Any:
                done = subprocess.run(
                    [*command, "status", "--json"],
                    cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
                )  # fmt: skip
                return json.loads(done.stdout)["totals"]

            wait_for(lambda: status()["completed_24h"] == 40, 60)
            started = [process.pid, *(p.pid for p in psutil.Process(process.pid).children(True))]
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
    said = (tmp_path / "out").read_text()
    assert "Deployed chain version 1 with 4 jobs." in said
    assert said.endswith("Stopping …\nStopped.\n")
    assert not running.exists()
    assert not [pid for pid in started if psutil.pid_exists(pid)]
    folder = str(tmp_path / "home")
    assert not [
        each for each in psutil.process_iter(["cmdline"])
        if any(folder in part for part in each.info["cmdline"] or [])
    ]  # fmt: skip
