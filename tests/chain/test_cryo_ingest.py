"""Cryo's backfill of a real node: the same rows as the node's own blocks, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests.unit.operators.payloads import make_payload
from trace_chain.backfill_configs import CryoIngestConfig
from trace_chain.cryo_ingest import CryoIngest
from trace_chain.errors import Lagging, WrongChain
from trace_chain.node.anvil import CHAIN_ID, Anvil
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import tables_of
from trace_core.operators.api import OperatorFailed, Result, Rows, task_context

NOW = datetime(2026, 11, 18, tzinfo=UTC)


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    """A chain with all that can be in a block, and empty ones between."""
    with Anvil() as made:
        for at in range(12):
            made.block(transfers=3 + at, payments=2, reverts=at % 3)
            made.mine(2)
        made.send({"from": made.accounts[0], "data": "0x60006000fd", "gas": "0x30000"})
        made.mine(5)
        yield made


def run(url: str, start: int, end: int, folder: Path, **config: Any) -> Result:
    settings = CryoIngestConfig(**{"chain_id": CHAIN_ID, "chunk_blocks": 10, **config})
    count = len(settings.datasets)
    payload = make_payload(
        "cryo_ingest", trigger={"start": start, "end": end},
        outputs=[_output(index) for index in range(count)],
    )  # fmt: skip
    context = task_context(payload, settings, now=NOW, env={"RPC_URL": url}, scratch=folder)
    return CryoIngest().run(context)


def _output(index: int) -> dict[str, Any]:
    return {
        "output_index": index, "dataset_uuid": str(UUID(int=index + 1)),
        "dataset_version": str(UUID(int=index + 10)), "backend": "s3", "staging_prefix": "x/",
    }  # fmt: skip


def rows_of(result: Result) -> dict[str, pa.Table]:
    return {each.name: each.table for each in result.outputs if isinstance(each, Rows)}


def from_the_node(node: Anvil, start: int, end: int) -> dict[str, pa.Table]:
    """What the follower writes of the same blocks."""
    with Rpc(node.url) as rpc:
        blocks, transactions, logs = tables_of(list(BlockReader(rpc).blocks(start, end)))
    return {"blocks": blocks, "transactions": transactions, "logs": logs}


def hashed(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """By their rows, in the order of the chain."""
    return {
        name: hashlib.sha256(
            json.dumps([list(row.values()) for row in table.to_pylist()], default=str).encode()
        ).hexdigest()
        for name, table in tables.items()
    }


@pytest.mark.parametrize("chunk_blocks", [7, 1000])
def test_its_rows_are_those_of_the_follower(node: Anvil, tmp_path: Path, chunk_blocks: int) -> None:
    found = rows_of(run(node.url, 0, node.head, tmp_path, chunk_blocks=chunk_blocks))
    expected = from_the_node(node, 0, node.head)
    assert {name: table.schema for name, table in found.items()} == {
        name: table.schema for name, table in expected.items()
    }
    assert found["logs"].num_rows > 90
    assert found["transactions"].num_rows > 40
    assert hashed(found) == hashed(expected)


def test_a_bloom_is_enough_where_the_config_says_so(node: Anvil, tmp_path: Path) -> None:
    found = rows_of(run(node.url, 0, node.head, tmp_path, verify="bloom"))
    expected = from_the_node(node, 0, node.head)
    assert set(found["blocks"]["verified"].to_pylist()) == {"bloom"}
    for tables in (found, expected):
        tables["blocks"] = tables["blocks"].drop_columns(["verified"])
    assert hashed(found) == hashed(expected)


@pytest.mark.parametrize("verify", ["receipts", "bloom"])
def test_where_there_is_no_cryo_the_rows_are_the_same(
    node: Anvil, tmp_path: Path, verify: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_chain.cryo_ingest.cryo_is_here", lambda: False)
    monkeypatch.setattr("trace_chain.cryo_ingest.freeze", None)
    found = rows_of(run(node.url, 0, node.head, tmp_path, verify=verify))
    assert set(found["blocks"]["verified"].to_pylist()) == {verify}
    monkeypatch.undo()
    again = tmp_path / "cryo"
    again.mkdir()
    assert hashed(found) == hashed(rows_of(run(node.url, 0, node.head, again, verify=verify)))


def test_a_range_is_inclusive_and_may_be_one_block(node: Anvil, tmp_path: Path) -> None:
    (result,) = run(node.url, 5, 5, tmp_path, datasets=("blocks",)).outputs
    assert isinstance(result, Rows)
    assert result.table["number"].to_pylist() == [5]
    assert (result.name, result.cursor_column, result.scope.range) == ("blocks", "number", (5, 5))


def test_the_datasets_are_the_outputs_in_their_order(node: Anvil, tmp_path: Path) -> None:
    result = run(node.url, 2, 9, tmp_path, datasets=("logs", "blocks"))
    assert [(each.output_index, each.name) for each in result.outputs] == [  # type: ignore[union-attr]
        (0, "logs"), (1, "blocks"),
    ]  # fmt: skip


def test_a_range_without_transactions_has_the_columns_all_the_same(
    node: Anvil, tmp_path: Path
) -> None:
    found = rows_of(run(node.url, node.head - 1, node.head, tmp_path))
    assert [table.num_rows for table in found.values()] == [2, 0, 0]
    assert len(found["logs"].schema) == 11


def test_a_node_that_is_behind_is_refused(node: Anvil, tmp_path: Path) -> None:
    with pytest.raises(Lagging) as behind:
        run(node.url, 0, node.head + 1, tmp_path)
    assert behind.value.retryable


def test_another_chain_is_refused_for_good(node: Anvil, tmp_path: Path) -> None:
    with pytest.raises(WrongChain) as other:
        run(node.url, 0, 1, tmp_path, chain_id=1)
    assert not other.value.retryable


def test_a_slot_without_an_upstream_is_named(node: Anvil, tmp_path: Path) -> None:
    with pytest.raises(OperatorFailed, match="RPC_UPSTREAM"):
        run("", 0, 1, tmp_path)
