"""Providers before real nodes, looked at and compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests.chain.rpc_faults import faulty
from tests.unit.operators.payloads import make_payload
from trace_chain.backfill_configs import LivelinessMonitorConfig, RpcIntegrityCheckConfig
from trace_chain.liveliness_monitor import LivelinessMonitor
from trace_chain.node.anvil import CHAIN_ID, GENESIS_TIME, Anvil
from trace_chain.rpc_integrity_check import RpcIntegrityCheck
from trace_core.operators.api import OperatorFailed, Result, Rows, task_context

NOW = datetime.fromtimestamp(GENESIS_TIME, UTC) + timedelta(seconds=30)
OUTPUT = {
    "output_index": 0, "dataset_uuid": str(UUID(int=1)), "dataset_version": str(UUID(int=2)),
    "backend": "postgres",
}  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    with Anvil() as made:
        made.traffic(20, transactions=1, transfers=2)
        yield made


@pytest.fixture
def open_() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def env(**urls: str) -> dict[str, str]:
    found = {}
    for name, url in urls.items():
        found |= {f"{name.upper()}_UPSTREAM": name, f"{name.upper()}_URL": url}
    return found


def look(urls: dict[str, str], **config: Any) -> dict[str, dict[str, Any]]:
    payload = make_payload("liveliness_monitor", outputs=[OUTPUT])
    settings = LivelinessMonitorConfig(**{"chain_id": CHAIN_ID, "timeout_seconds": 2.0, **config})
    return by_provider(
        LivelinessMonitor().run(task_context(payload, settings, now=NOW, env=env(**urls)))
    )


def check(urls: dict[str, str], scope: dict[str, int] | None, **config: Any) -> list[Any]:
    payload = make_payload("rpc_integrity_check", trigger=scope, outputs=[OUTPUT])
    if scope is None:
        payload["trigger"] = None
    settings = RpcIntegrityCheckConfig(**config)
    result = RpcIntegrityCheck().run(task_context(payload, settings, now=NOW, env=env(**urls)))
    return rows_of(result).to_pylist()


def rows_of(result: Result) -> pa.Table:
    (rows,) = result.outputs
    assert isinstance(rows, Rows)
    return rows.table


def by_provider(result: Result) -> dict[str, dict[str, Any]]:
    return {row["provider"]: row for row in rows_of(result).to_pylist()}


def verdicts(rows: list[Any]) -> dict[tuple[int, str], str]:
    return {(row["block_number"], row["provider"]): row["verdict"] for row in rows}


def test_each_provider_gets_its_verdict(node: Anvil, open_: ExitStack) -> None:
    behind = open_.enter_context(faulty(node.url, behind=10))
    silent = open_.enter_context(faulty(node.url, silent_every=1, silent_seconds=3.0))
    other = open_.enter_context(Anvil(chain_id=99))
    found = look(
        {
            "good": node.url, "behind": behind.url, "silent": silent.url, "other": other.url,
            "gone": "http://127.0.0.1:9",
        }
    )  # fmt: skip
    assert {name: row["verdict"] for name, row in found.items()} == {
        "good": "live", "behind": "behind", "silent": "away", "other": "wrong_chain",
        "gone": "away",
    }  # fmt: skip
    assert found["good"]["head"] == node.head
    assert found["good"]["age_seconds"] < 60
    assert found["behind"]["reason"] == "10 blocks behind the best provider"
    assert found["silent"]["head"] is None
    assert found["good"]["checked_at"] == NOW


def test_a_chain_that_stands_still_is_stale(node: Anvil) -> None:
    found = look({"only": node.url}, max_age_seconds=1)
    assert (found["only"]["verdict"], found["only"]["head"]) == ("stale", node.head)


def test_providers_that_tell_the_same_agree(node: Anvil) -> None:
    rows = check({"a": node.url, "b": node.url}, {"start": 5, "end": 7})
    assert verdicts(rows) == {(n, p): "agrees" for n in (5, 6, 7) for p in "ab"}
    assert {row["log_count"] for row in rows} == {2}


def test_the_provider_in_the_minority_is_named_and_what_differs(
    node: Anvil, open_: ExitStack
) -> None:
    drops = open_.enter_context(faulty(node.url, drop_every=1, drop_blocks=frozenset({6})))
    rows = check({"a": node.url, "b": drops.url, "c": node.url}, {"start": 5, "end": 6})
    assert verdicts(rows) == {
        (5, "a"): "agrees", (5, "b"): "agrees", (5, "c"): "agrees",
        (6, "a"): "agrees", (6, "b"): "differs", (6, "c"): "agrees",
    }  # fmt: skip
    (minority,) = [row for row in rows if row["verdict"] == "differs"]
    assert minority["reason"] == "another log count 0, not 2"


def test_another_fork_is_another_hash(node: Anvil, open_: ExitStack) -> None:
    fork = open_.enter_context(Anvil(seed=5))
    fork.traffic(20, transactions=1, transfers=3)
    rows = check({"a": node.url, "b": fork.url, "c": node.url}, {"cursor": 9})
    (minority,) = [row for row in rows if row["verdict"] == "differs"]
    assert minority["provider"] == "b"
    assert "block hash" in minority["reason"]


def test_without_a_quorum_it_says_so(node: Anvil, open_: ExitStack) -> None:
    drops = open_.enter_context(faulty(node.url, drop_every=1))
    rows = check({"a": node.url, "b": drops.url}, {"cursor": 6})
    assert set(verdicts(rows).values()) == {"no_quorum"}
    # Two against two is no quorum either, even where two would be enough.
    rows = check({"a": node.url, "b": drops.url, "c": node.url, "d": drops.url}, {"cursor": 6})
    assert set(verdicts(rows).values()) == {"no_quorum"}


def test_who_is_away_or_behind_is_not_counted(node: Anvil, open_: ExitStack) -> None:
    behind = open_.enter_context(faulty(node.url, behind=10))
    urls = {"a": node.url, "b": node.url, "behind": behind.url, "gone": "http://127.0.0.1:9"}
    rows = check(urls, {"cursor": node.head})
    assert verdicts(rows) == {
        (node.head, "a"): "agrees", (node.head, "b"): "agrees",
        (node.head, "behind"): "away", (node.head, "gone"): "away",
    }  # fmt: skip


def test_of_a_long_range_some_blocks_are_asked(node: Anvil) -> None:
    rows = check({"a": node.url, "b": node.url}, {"start": 0, "end": 19}, max_blocks=5)
    assert sorted({row["block_number"] for row in rows}) == [0, 4, 8, 12, 16]


def test_as_a_source_it_takes_a_block_that_a_quorum_has(node: Anvil, open_: ExitStack) -> None:
    behind = open_.enter_context(faulty(node.url, behind=10))
    rows = check({"a": node.url, "b": node.url, "c": behind.url}, None, depth=2)
    assert {row["block_number"] for row in rows} == {node.head - 2}


def test_a_quorum_needs_as_many_providers(node: Anvil) -> None:
    with pytest.raises(OperatorFailed, match="quorum of 2"):
        check({"a": node.url}, {"cursor": 1})
