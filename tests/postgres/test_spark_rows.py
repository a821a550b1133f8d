"""PySpark operators from end to end on one machine: real Spark, both layouts, one platform."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from tests.postgres.test_rows import Scene
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.adapters.lite.local_spark import LocalSparkRunner
from trace_core.settings import Settings
from trace_core.storage.model import Backend

DAG = """
version: 1
name: rows
jobs:
  - {name: asked, activation: source, runtime: dispatcher, operator: range_request,
     source: {kind: manual}, outputs: 1}
  - {name: readings, activation: reactive, runtime: worker, operator: rows_readings,
     execution_strategy: PerPartition, inputs: [{from: {job: asked, output: 0}}], outputs: 1,
     update_strategy: replace}
  - {name: copied, activation: reactive, runtime: emr_serverless, operator: spark_copy,
     execution_strategy: PerPartition, outputs: 1, update_strategy: replace,
     inputs: [{from: {job: readings, output: 0}, where: "device = 'device-1'"}],
     config: {one_file: true, sort_by: [number], cursor_column: number, held_by: HOLD}}
  - {name: loaded, activation: reactive, runtime: emr_serverless, operator: spark_readings,
     execution_strategy: PerPartition, outputs: 1, update_strategy: replace,
     inputs: [{from: {job: copied, output: 0}}]}
  - {name: exported, activation: reactive, runtime: emr_serverless, operator: spark_copy,
     execution_strategy: PerPartition, outputs: 1, update_strategy: replace,
     inputs: [{from: {job: loaded, output: 0}}], config: {sort_by: [number]}}
publish:
  copied: {from: {job: copied, output: 0}}
  loaded: {from: {job: loaded, output: 0}}
  exported: {from: {job: exported, output: 0}}
"""
WANTED = [
    {"number": number, "device": "device-1", "value": number % 7}
    for number in range(100, 120)
    if number % 3 == 1
]


@pytest.fixture
def scene(state_dsn: str, data_dsn: str, tmp_path: Path) -> Iterator[Scene]:
    settings = Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        data_dsn=SecretStr(data_dsn),
        operator_modules=("dags.rows_operators", "tests.spark_specs"),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        retry_seconds=0,
        **UNLIMITED,
    )
    choices = Choices(children=1, sweep_seconds=0.2, dispatch_seconds=0.2, reap_seconds=0.5)
    with (
        (tmp_path / "log").open("w") as file,
        telemetry.redirected(file),
        Platform(settings, choices) as platform,
    ):
        yield Scene(platform, tmp_path)


def test_rows_go_through_spark_in_both_layouts_and_a_killed_runner_is_made_good(
    scene: Scene, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    scene.deploy(DAG.replace("HOLD", str(hold)))
    scene.ask(100, 119)
    wait_for(lambda: len(scene.commits("exported")) == 1, 120)
    for name, backend in (
        ("copied", Backend.S3),
        ("loaded", Backend.POSTGRES),
        ("exported", Backend.S3),
    ):
        found, rows = scene.published(name)
        assert found is backend
        assert sorted(rows, key=lambda each: each["number"]) == WANTED, name
    (commit,) = scene.commits("copied")
    assert commit.objects[0]["key"].endswith("rows_100_119.parquet")
    (task,) = scene.state("SELECT t.task_id FROM tasks t JOIN jobs USING (job_id)"
                          " WHERE name = 'copied'")  # fmt: skip
    status, shown = call(scene.platform, "GET", f"/v1/tasks/{task.task_id}")
    assert status == 200
    (run,) = shown["runs"]
    assert (run["state"], run["attempt"]) == ("SUCCESS", 1)
    assert run["run_seconds"] > 0 and run["vcpu_hours"] > 0 and run["queued_seconds"] >= 0

    runner = scene.app.spark_runner
    assert isinstance(runner, LocalSparkRunner) and runner.pid is not None
    hold.touch()
    scene.ask(120, 139)
    wait_for(lambda: bool(_running(scene)), 60)
    os.kill(runner.pid, signal.SIGKILL)
    hold.unlink()
    wait_for(lambda: len(scene.commits("exported")) == 2, 120)
    wait_for(lambda: not scene.state("SELECT 1 FROM spark_runs WHERE closed_at IS NULL"))
    _, rows = scene.published("exported")
    assert len(rows) == len({each["number"] for each in rows}) == 14


def _running(scene: Scene) -> list[object]:
    return scene.state("SELECT 1 FROM spark_runs WHERE state = 'RUNNING' AND closed_at IS NULL")
