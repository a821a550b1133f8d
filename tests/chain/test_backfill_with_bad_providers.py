"""A backfill over three providers, one of which limits, one lies and one lags: it ends correct."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import SecretStr

from tests.chain.rpc_faults import FaultyProvider, faulty
from tests.chain.test_cryo_ingest import from_the_node, hashed
from tests.postgres.lite_app import UNLIMITED
from tests.postgres.test_lite import call, wait_for
from trace_chain.columns import CURSORS
from trace_chain.node.anvil import CHAIN_ID, Anvil
from trace_cli.platform import Choices, Platform
from trace_core import telemetry
from trace_core.settings import Settings
from trace_core.storage.reader import PinnedReader

LAST, CHUNK = 80, 20
DAG = f"""
version: 1
name: history
defaults: {{ max_attempts: 30 }}
worker_pools:
  rpc:
    - name: limits
      env: {{ RPC_UPSTREAM: limits }}
      secrets: {{ RPC_KEY: key_limits }}
    - name: lies
      env: {{ RPC_UPSTREAM: lies }}
      secrets: {{ RPC_KEY: key_lies }}
    - name: lags
      env: {{ RPC_UPSTREAM: lags }}
      secrets: {{ RPC_KEY: key_lags }}
jobs:
  - name: asked
    activation: source
    runtime: dispatcher
    operator: range_request
    source: {{ kind: manual }}
    outputs: 1
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_splitter
    execution_strategy: PerPartition
    inputs: [{{ from: {{ job: asked, output: 0 }} }}]
    outputs: 1
    update_strategy: replace
    config: {{ chunk_size: {CHUNK} }}
  - name: backfill
    activation: reactive
    runtime: worker
    operator: cryo_ingest
    execution_strategy: PerPartition
    inputs: [{{ from: {{ job: chunks, output: 0 }} }}]
    worker_pool: rpc
    priority: backfill
    outputs: 3
    update_strategy: replace
    config: {{ chain_id: {CHAIN_ID}, datasets: [blocks, transactions, logs] }}
publish:
  blocks: {{ from: {{ job: backfill, output: 0 }} }}
  transactions: {{ from: {{ job: backfill, output: 1 }} }}
  logs: {{ from: {{ job: backfill, output: 2 }} }}
"""


COMMITS = """
SELECT c.objects FROM commits c JOIN dataset_versions v USING (dataset_version)
  JOIN jobs j ON j.job_id = v.job_id WHERE j.name = 'backfill' AND c.replaced_at IS NULL
"""


@pytest.fixture
def node() -> Iterator[Anvil]:
    with Anvil() as made:
        made.traffic(LAST, transactions=1, transfers=3)
        yield made


@pytest.fixture
def providers(node: Anvil) -> Iterator[dict[str, FaultyProvider]]:
    everywhere = frozenset({"eth_getLogs", "eth_getBlockReceipts"})
    with ExitStack() as open_:
        yield {
            "limits": open_.enter_context(faulty(node.url, limit_every=25)),
            "lies": open_.enter_context(
                faulty(node.url, drop_every=2, drop_from=everywhere)
            ),
            "lags": open_.enter_context(faulty(node.url, behind=30)),
        }  # fmt: skip


@pytest.fixture
def settings(
    state_dsn: str, data_dsn: str, tmp_path: Path, providers: dict[str, FaultyProvider]
) -> Settings:
    upstreams = {
        name: {
            "url": f"{each.url}/v2/{{key}}",
            "allow_private": True,
            "limits": {"retry_seconds": 0.05, "retries": 6, "timeout_seconds": 10},
        }
        for name, each in providers.items()
    }
    return Settings(
        home=tmp_path / "home",
        state_dsn=SecretStr(state_dsn),
        data_dsn=SecretStr(data_dsn),
        upstreams=SecretStr(json.dumps(upstreams)),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
        retry_seconds=0,
        quarantine_failures=1,
        quarantine_seconds=0.5,
        **UNLIMITED,
    )


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> Iterator[None]:
    with (tmp_path / "log").open("w") as file, telemetry.redirected(file):
        yield


def published(platform: Platform, name: str) -> pa.Table:
    app = platform.app
    (pin,) = app.pin_resolver.current_pins(app.own_org, [name])[name]
    (part,) = app.pin_resolver.resolve([pin])
    table = PinnedReader(app.objects, app.data_reader).table(part)
    places = {"transactions": "transaction_index", "logs": "log_index"}
    order = [CURSORS[name], *([places[name]] if name in places else [])]
    return table.sort_by([(column, "ascending") for column in order])


def test_it_ends_correct_and_shows_what_each_provider_did(
    settings: Settings, node: Anvil, providers: dict[str, FaultyProvider], tmp_path: Path
) -> None:
    with Platform(settings, Choices(dispatch_seconds=0.1, children=3)) as platform:
        for name in providers:
            body = {"value": f"canary-{name}"}
            status, answer = call(platform, "PUT", f"/v1/secrets/key_{name}", body)
            assert status in (200, 201), answer
        status, answer = call(platform, "POST", "/v1/dags", {"text": DAG, "filename": "h.yaml"})
        assert status == 201, answer
        asked = {"request": {"start": 1, "end": LAST}}
        assert call(platform, "POST", "/v1/dags/history/jobs/asked/trigger", asked)[0] == 202

        def done() -> bool:
            return len(platform.app.state.read(COMMITS, {})) == 3 * len(range(0, LAST + 1, CHUNK))

        wait_for(done, seconds=120)
        keys = platform.app.state.read(COMMITS, {})
        names = {each["key"].rpartition("/")[2] for row in keys for each in row.objects}
        assert {"blocks_1_19.parquet", "logs_60_79.parquet"} <= names
        found = {name: published(platform, name) for name in CURSORS}
        slots = {each["slot"]: each for each in call(platform, "GET", "/v1/slots")[1]["slots"]}
        audit = platform.app.state.read(
            "SELECT target, detail FROM audit WHERE action = 'slot.quarantine'", {}
        )
    assert hashed(found) == hashed(from_the_node(node, 1, LAST))
    # Each provider was called with the key of its own slot, and with no other.
    assert {name: each.keys for name, each in providers.items()} == {
        name: {f"canary-{name}"} for name in providers
    }
    assert {name: each["upstreams"] for name, each in slots.items()} == {
        name: [name] for name in providers
    }
    assert all(each["requests"] > 0 for each in slots.values())
    assert slots["limits"]["rate_limited"] > 0
    faults = {(row.target.rpartition("/")[2], row.detail["fault"]) for row in audit}
    assert ("lies", "untrue") in faults
    assert ("lags", "lagging") in faults
    said = (tmp_path / "log").read_text() + str(slots)
    logs = [each.read_text() for each in (tmp_path / "home").rglob("*.log")]
    assert len(logs) >= LAST // CHUNK
    assert "canary-" not in said + "".join(logs)
