"""Labels from a file to a dataset: uploaded by a person, refused by line, replaced or added to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.settings import Settings
from trace_core.storage.reader import PinnedReader

A, B, C = ("0x" + digit * 40 for digit in "abc")
DAG = """
version: 1
name: labels
jobs:
  - name: upload
    activation: source
    runtime: worker
    operator: address_labels
    source: { kind: manual }
    outputs: 1
    update_strategy: replace
publish:
  address_labels: { from: { job: upload, output: 0 } }
"""
APPENDED = DAG.replace("replace\n", "append\n    unique_key: [address]\n")


@pytest.fixture
def settings(state_dsn: str, data_dsn: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        data_dsn=SecretStr(data_dsn),
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


def upload(platform: Platform, text: str) -> tuple[int, Any]:
    path = "/v1/dags/labels/jobs/upload/trigger"
    return call(platform, "POST", path, {"request": {"csv": text}})


def labels(platform: Platform) -> dict[str, str]:
    app = platform.app
    (pin,) = app.pin_resolver.current_pins(app.own_org, ["address_labels"])["address_labels"]
    (part,) = app.pin_resolver.resolve([pin])
    rows = PinnedReader(app.objects, app.data_reader).table(part).to_pylist()
    assert len({row["address"] for row in rows}) == len(rows)
    return {row["address"]: row["label"] for row in rows}


@pytest.mark.parametrize(
    ("dag", "then"),
    [(DAG, {B: "bank", C: "coin"}), (APPENDED, {A: "amm", B: "bridge", C: "coin"})],
    ids=["replace", "append"],
)
def test_an_upload_becomes_the_labels(settings: Settings, dag: str, then: dict[str, str]) -> None:
    with Platform(settings, Choices(dispatch_seconds=0.1)) as platform:
        status, answer = call(platform, "POST", "/v1/dags", {"text": dag, "filename": "l.yaml"})
        assert status == 201, answer
        assert upload(platform, f"address,label\n{A},amm\n{B},bridge\n")[0] == 202
        wait_for(lambda: labels(platform) == {A: "amm", B: "bridge"})
        status, answer = upload(platform, f"address,label\n{A},amm\nnope,x\n{A},again\n")
        assert status == 422
        assert "line 3: 'nope' is no address" in answer["error"]["message"]
        assert "line 4" in answer["error"]["message"]
        assert upload(platform, f"address,label\n{B},bank\n{C},coin\n")[0] == 202
        wait_for(lambda: labels(platform) == then)
