"""kill -9 of follower, Spark runner and Java in the middle of their work, while somebody reads.

What is read is one whole chain at every look, and at the end it is the node's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from pydantic import SecretStr

from dags.chain_proof import prove
from tests.chain.compact_world import COMPACTED
from tests.chain.follow_world import NAMES, dag
from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from trace_chain.node.anvil import Anvil
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.settings import Settings
from trace_core.storage.reader import PinnedReader

POOL = "worker_pools: {rpc: [{name: local, env: {RPC_UPSTREAM: node}}]}\njobs:"
ALWAYS = "source: {kind: always_on}"
RUNNING = "SELECT count(*) AS n FROM spark_runs WHERE state = 'RUNNING' AND closed_at IS NULL"


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    with Anvil() as node:
        yield node


@pytest.fixture
def platform(state_dsn: str, data_dsn: str, tmp_path: Path, anvil: Anvil) -> Iterator[Platform]:
    upstreams = {"node": {"url": anvil.url + "/", "allow_private": True}}
    settings = Settings(
        home=tmp_path / "home", state_dsn=SecretStr(state_dsn), data_dsn=SecretStr(data_dsn),
        upstreams=SecretStr(json.dumps(upstreams)), user_port=0, internal_port=0, task_port=0,
        issuer_port=0, lease_seconds=3, retry_seconds=0, **UNLIMITED,
    )  # fmt: skip
    with (
        (tmp_path / "log").open("w") as file,
        telemetry.redirected(file),
        Platform(settings, Choices(children=1, dispatch_seconds=0.1, reap_seconds=0.2)) as made,
    ):
        yield made


class Reader(threading.Thread):
    """Looks again and again, at pins of one moment, and remembers what was wrong."""

    def __init__(self, app: App) -> None:
        super().__init__(name="reader", daemon=True)
        self._app = app
        self._over = threading.Event()
        self.looks = 0
        self.blocks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.05):
            try:
                self._look()
                self.looks += 1
            except Exception as error:
                self.wrong.append(repr(error))

    def stop(self) -> None:
        self._over.set()
        self.join(30)

    def _look(self) -> None:
        app = self._app
        pins = app.pin_resolver.current_pins(app.own_org, list(NAMES))
        reader = PinnedReader(app.objects, app.data_reader)
        rows = {
            name: reader.relation(app.pin_resolver.resolve(pins[name])).read_all().to_pylist()
            for name in NAMES
        }
        blocks = sorted(rows["blocks"], key=lambda each: each["number"])
        for parent, child in pairwise(blocks):
            assert child["number"] == parent["number"] + 1, f"{child['number']} after {parent}"
            assert child["parent_hash"] == parent["hash"], f"{child['number']} is of another fork"
        hashes = {each["number"]: each["hash"] for each in blocks}
        for name, count in (("transactions", "transaction_count"), ("logs", "log_count")):
            found = Counter(row["block_number"] for row in rows[name])
            for row in rows[name]:
                assert hashes[row["block_number"]] == row["block_hash"], f"{name} of another fork"
            for block in blocks:
                assert found[block["number"]] == block[count], f"{name} of {block['number']}"
        self.blocks = len(blocks)


def _kill(word: str) -> None:
    """The process of ours whose command has this word; after another one died, the next one."""

    def killed() -> bool:
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(word in part for part in each.cmdline()):
                    os.kill(each.pid, signal.SIGKILL)
                    return True
        return False

    wait_for(killed, seconds=60)


def _deploy(platform: Platform) -> None:
    followed = dag(3, poll_seconds=0.05, wait_seconds=0.5).replace("jobs:", POOL)
    followed = followed.replace(ALWAYS, f"{ALWAYS}\n    worker_pool: rpc")
    text = followed + COMPACTED.format(range_size=10, finality_depth=2)
    status, answer = call(
        platform, "POST", "/v1/dags", {"text": text, "filename": "chain.dag.yaml"}
    )
    assert status == 201, answer


def test_nothing_partial_is_ever_read_whatever_is_killed(platform: Platform, anvil: Anvil) -> None:
    anvil.traffic(22, transactions=1, transfers=3)
    _deploy(platform)
    app = platform.app
    wait_for(lambda: app.pin_resolver.current_pins(app.own_org, ["blocks"]), seconds=60)
    reader = Reader(app)
    reader.start()
    try:
        for word in ("trace_core.worker.child_main", "emr_jobs.runner", "java"):
            if word != "trace_core.worker.child_main":
                wait_for(lambda: app.state.read(RUNNING, {})[0].n > 0, seconds=120)
            _kill(word)
            anvil.random_reorg(4)
            anvil.traffic(11, transactions=1, transfers=2)
        compacted = (anvil.head - 2) // 10 - 1
        wait_for(lambda: prove(app, anvil.url).found[0].parts[-1] >= 10 * compacted, seconds=180)
        wait_for(lambda: prove(app, anvil.url).holds, seconds=60)
    finally:
        reader.stop()
    assert reader.wrong == []
    assert reader.looks > 20 and reader.blocks > 40
