"""Rows from end to end: asked for, made, read at a pin, added up; and what a dead worker leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr

from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.settings import Settings
from trace_core.storage.model import Backend, Pin
from trace_core.storage.reader import PinnedReader

ROOT = Path(__file__).parents[2]
DAG = (ROOT / "dags" / "rows.dag.yaml").read_text(encoding="utf-8")
WORKER = Path(__file__).parent / "rows_worker.py"
NO_WORKER = Choices(
    children=0, sweep_seconds=0.2, dispatch_seconds=0.1, reap_seconds=0.2, clean_seconds=3600
)


@pytest.fixture
def settings(state_dsn: str, data_dsn: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        data_dsn=SecretStr(data_dsn),
        operator_modules=("dags.rows_operators",),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        lease_seconds=3,
        retry_seconds=0,
        **UNLIMITED,
    )


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> Iterator[None]:
    with (tmp_path / "log").open("w") as file, telemetry.redirected(file):
        yield


class Scene:
    def __init__(self, platform: Platform, folder: Path) -> None:
        self.platform, self.app = platform, platform.app
        self._folder = folder

    def ask(self, start: int, end: int) -> None:
        path = "/v1/dags/rows/jobs/asked/trigger"
        body = {"request": {"start": start, "end": end}}
        assert call(self.platform, "POST", path, body)[0] == 202

    def deploy(self, text: str = DAG) -> None:
        body = {"text": text, "filename": "rows.dag.yaml"}
        status, answer = call(self.platform, "POST", "/v1/dags", body)
        assert status == 201, answer

    def state(self, sql: str, **params: Any) -> list[Any]:
        return self.app.state.read(sql, params)

    def data(self, sql: str) -> list[Any]:
        return self.app.data.read(sql, {})

    def wait_until_totals_are(self, count: int) -> None:
        wait_for(lambda: len(self.commits("totals")) == count)

    def commits(self, job: str) -> list[Any]:
        return self.state(
            "SELECT c.* FROM commits c JOIN dataset_versions v USING (dataset_version)"
            " JOIN jobs j ON j.job_id = v.job_id WHERE j.name = %(job)s ORDER BY c.number",
            job=job,
        )

    def attempts(self, job: str) -> list[tuple[int, str, bool]]:
        rows = self.state(
            "SELECT a.attempt, a.outcome, a.final FROM attempts a JOIN jobs j USING (job_id)"
            " WHERE j.name = %(job)s ORDER BY a.task_id, a.attempt",
            job=job,
        )
        return [(row.attempt, row.outcome, row.final) for row in rows]

    def table(self, pin: Pin) -> pa.Table:
        (part,) = self.app.pin_resolver.resolve([pin])
        return PinnedReader(self.app.objects, self.app.data_reader).table(part)

    def published(self, name: str) -> tuple[Backend, list[dict[str, Any]]]:
        (pin,) = self.app.pin_resolver.current_pins(self.app.own_org, [name])[name]
        (part,) = self.app.pin_resolver.resolve([pin])
        return part.backend, self.table(pin).to_pylist()

    @contextmanager
    def worker(self, name: str, *crash: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """A worker process; its marker appears when it comes to the point of its crash."""
        settings = self.app.settings
        assert settings.state_dsn and settings.data_dsn
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "shared")]),
            "TRACE_HOME": str(settings.home),
            "TRACE_STATE_DSN": settings.state_dsn.get_secret_value(),
            "TRACE_DATA_DSN": settings.data_dsn.get_secret_value(),
            "TRACE_OPERATOR_MODULES": "dags.rows_operators",
            "TRACE_INTERNAL_URL": self.platform.servers[1].url,
            "TRACE_TASK_API_URL": self.platform.servers[2].url,
        }
        marker = self._folder / f"{name}.marker"
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(WORKER), str(marker), *crash],
                env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield process, marker
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")


def expected_totals(start: int, end: int) -> list[dict[str, Any]]:
    numbers = range(start, end + 1)
    return [
        {
            "first_number": start,
            "device": f"device-{device}",
            "readings": sum(number % 3 == device for number in numbers),
            "total": sum(number % 7 for number in numbers if number % 3 == device),
        }
        for device in range(3)
    ]


def by_device(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["first_number"], row["device"]))


@pytest.mark.parametrize("runtime", ["worker", "lambda"])
def test_rows_are_made_read_at_their_pin_and_added_up(
    settings: Settings, tmp_path: Path, runtime: str
) -> None:
    with Platform(settings, Choices(dispatch_seconds=0.1)) as platform:
        scene = Scene(platform, tmp_path)
        scene.deploy(DAG.replace("runtime: worker", f"runtime: {runtime}"))
        scene.ask(0, 99)
        scene.ask(100, 149)
        scene.wait_until_totals_are(2)

        backend, readings = scene.published("readings")
        assert backend is Backend.S3
        assert sorted(row["number"] for row in readings) == list(range(150))
        keys = [each["key"] for row in scene.commits("readings") for each in row.objects]
        assert {key.rpartition("/")[2] for key in keys} == {
            "readings_0_99.parquet",
            "readings_100_149.parquet",
        }

        backend, totals = scene.published("totals")
        assert backend is Backend.POSTGRES
        assert by_device(totals) == expected_totals(0, 99) + expected_totals(100, 149)

        # What each task of totals recorded as its pin still shows what it read.
        for commit in scene.commits("totals"):
            (pin,) = (Pin.parse(each) for each in commit.input_pins)
            rows = scene.table(pin).to_pylist()
            numbers = {row["number"] for row in rows}
            assert numbers >= set(range(commit.range_start, commit.range_end + 1))


def test_asking_again_replaces_the_range_and_nothing_else(
    settings: Settings, tmp_path: Path
) -> None:
    with Platform(settings, Choices(dispatch_seconds=0.1)) as platform:
        scene = Scene(platform, tmp_path)
        scene.deploy()
        for asked, (start, end) in enumerate([(0, 9), (10, 19), (0, 9)], 1):
            scene.ask(start, end)
            scene.wait_until_totals_are(asked)
        before = scene.commits("totals")
        assert [(row.number, row.replaced_at) for row in before] == [(1, 3), (2, None), (3, None)]
        _, totals = scene.published("totals")
        assert by_device(totals) == expected_totals(0, 9) + expected_totals(10, 19)


def test_what_a_killed_worker_committed_is_reported_by_the_retry_and_is_there_once(
    settings: Settings, tmp_path: Path
) -> None:
    with Platform(settings, NO_WORKER) as platform:
        scene = Scene(platform, tmp_path)
        scene.deploy()
        with scene.worker("first", "data_commit:after_commit", "KILL") as (process, marker):
            scene.ask(0, 99)
            assert process.wait(30) == -signal.SIGKILL
        assert marker.exists()
        assert scene.commits("totals") == []
        with scene.worker("second"):
            wait_for(lambda: (2, "Completed", True) in scene.attempts("totals"))
        assert scene.attempts("totals") == [(1, "LeaseExpired", False), (2, "Completed", True)]
        # Written under the first attempt, once, and registered as such.
        (commit,) = scene.commits("totals")
        assert (commit.number, commit.attempt) == (1, 1)
        (record,) = scene.data("SELECT attempt, number FROM trace.records")
        assert (record.attempt, record.number) == (1, 1)
        assert "an earlier attempt has committed" in scene.said("second")
        assert by_device(scene.published("totals")[1]) == expected_totals(0, 99)


def test_a_worker_that_was_frozen_before_its_data_transaction_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    with Platform(settings, NO_WORKER) as platform:
        scene = Scene(platform, tmp_path)
        scene.deploy()
        with scene.worker("frozen", "data_commit:begin", "STOP") as (process, marker):
            scene.ask(0, 99)
            wait_for(marker.exists)
            with scene.worker("second"):
                wait_for(lambda: any(final for *_, final in scene.attempts("totals")))
                process.send_signal(signal.SIGCONT)
                wait_for(lambda: "writes to the data database" in scene.said("frozen"))
        # On a busy machine the second worker may lose a lease of three seconds too.
        *expired, (last, outcome, final) = scene.attempts("totals")
        assert (last > 1, outcome, final) == (True, "Completed", True)
        assert {each[1:] for each in expired} == {("LeaseExpired", False)}
        (commit,) = scene.commits("totals")
        assert (commit.number, commit.attempt) == (1, last)
        assert [row.attempt for row in scene.data("SELECT attempt FROM trace.records")] == [last]
        assert by_device(scene.published("totals")[1]) == expected_totals(0, 99)
