"""The whole platform follows a real node: through the egress gateway, in a worker's child process
that is killed in between; what readers get at a pin is the chain."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from pydantic import SecretStr

from tests.chain.follow_world import COLUMNS, NAMES, Hashes, clean_build, row_hash
from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from trace_chain.node.anvil import Anvil
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.settings import Settings
from trace_core.storage.reader import PinnedReader

DAG = """
version: 1
name: chain
worker_pools:
  rpc:
    - name: local
      env: { RPC_UPSTREAM: node }
jobs:
  - name: follow
    activation: source
    runtime: worker
    operator: block_follower
    source: { kind: always_on }
    worker_pool: rpc
    outputs: 3
    update_strategy: replace
    config: { chain_id: 31337, poll_seconds: 0.05 }
publish:
  blocks: { from: { job: follow, output: 0 } }
  transactions: { from: { job: follow, output: 1 } }
  logs: { from: { job: follow, output: 2 } }
"""


@pytest.fixture
def platform(state_dsn: str, data_dsn: str, tmp_path: Path, anvil: Anvil) -> Iterator[Platform]:
    upstreams = {"node": {"url": anvil.url + "/", "allow_private": True}}
    settings = Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        data_dsn=SecretStr(data_dsn),
        upstreams=SecretStr(json.dumps(upstreams)),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        lease_seconds=3,
        retry_seconds=0,
        **UNLIMITED,
    )
    with (
        (tmp_path / "log").open("w") as file,
        telemetry.redirected(file),
        Platform(settings, Choices(children=1, dispatch_seconds=0.1, reap_seconds=0.2)) as made,
    ):
        yield made


def hashes(platform: Platform) -> Hashes:
    app = platform.app
    pins = app.pin_resolver.current_pins(app.own_org, list(NAMES))
    found = {}
    for name in NAMES:
        (part,) = app.pin_resolver.resolve([pins[name][0]])
        rows = PinnedReader(app.objects, app.data_reader).table(part).to_pylist()
        found[name] = row_hash([tuple(row[c.name] for c in COLUMNS[name]) for row in rows])
    return found


def is_followed(platform: Platform, anvil: Anvil) -> Callable[[], bool]:
    return lambda: hashes(platform) == clean_build(anvil.url)


def test_a_node_is_followed_through_the_gateway_past_reorgs_and_kills(
    platform: Platform, anvil: Anvil
) -> None:
    anvil.traffic(30)
    body = {"text": DAG, "filename": "chain.dag.yaml"}
    status, answer = call(platform, "POST", "/v1/dags", body)
    assert status == 201, answer
    wait_for(is_followed(platform, anvil))
    for depth in (3, 30):
        anvil.random_reorg(depth)
        anvil.block(transfers=3)
        children = psutil.Process().children(recursive=True)
        (child,) = [each for each in children if "trace_core.worker.child_main" in each.cmdline()]
        os.kill(child.pid, signal.SIGKILL)
        wait_for(is_followed(platform, anvil))
    began = time.monotonic()
    head = anvil.block(transfers=1)
    wait_for(lambda: hashes(platform)["blocks"].startswith(f"{head + 1}:"))
    # Generous, since the machine may be busy; a schedule of seconds would not come near it.
    assert time.monotonic() - began < 5
    print(f"from the block to its readers: {time.monotonic() - began:.2f} s")
