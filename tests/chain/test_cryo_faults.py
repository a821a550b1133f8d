"""With each fault of a provider: the range is repaired and says so, or nothing of it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chain.rpc_faults import FaultyProvider, faulty
from tests.chain.test_cryo_ingest import from_the_node, hashed, rows_of, run
from trace_chain.errors import (
    ChainError,
    CryoFailed,
    Lagging,
    NodeAway,
    ProviderFault,
    RateLimited,
    Untrue,
)
from trace_chain.node.anvil import Anvil
from trace_core.egress.gateway import EgressGateway
from trace_core.egress.model import Upstream
from trace_core.egress.usage import Fault

LAST = 30


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    with Anvil() as made:
        made.traffic(LAST, transactions=2, transfers=4)
        yield made


NO_LOGS = frozenset({"eth_getLogs"})


def test_a_log_that_cryo_was_not_told_of_is_found_and_its_block_repaired(
    node: Anvil, tmp_path: Path
) -> None:
    with faulty(node.url, drop_every=20, drop_from=NO_LOGS) as provider:
        found = rows_of(run(provider.url, 1, LAST, tmp_path))
        assert provider.dropped > 5
    assert hashed(found) == hashed(from_the_node(node, 1, LAST))


@pytest.mark.parametrize("drop_from", [NO_LOGS, NO_LOGS | {"eth_getBlockReceipts"}])
def test_one_log_of_ten_thousand_is_not_lost(tmp_path: Path, drop_from: frozenset[str]) -> None:
    with Anvil() as node:
        # So many in a block that a bloom has the bits of a lost one all the same.
        last = node.traffic(200, transactions=1, transfers=120)
        with faulty(node.url, drop_every=10_000, drop_from=drop_from) as provider:
            found = rows_of(run(provider.url, 2, last, tmp_path, chunk_blocks=50))
            assert provider.dropped >= 2
        assert found["logs"].num_rows == 24_000
        assert hashed(found) == hashed(from_the_node(node, 2, last))


def test_the_verdict_says_which_blocks_were_repaired(tmp_path: Path) -> None:
    with Anvil() as node:
        # One log in a block: no other one has its bits, so that its bloom tells.
        node.traffic(20, transactions=1, transfers=1)
        with faulty(node.url, drop_every=5, drop_from=NO_LOGS) as provider:
            found = rows_of(run(provider.url, 2, 21, tmp_path, verify="bloom"))
            assert provider.dropped == 4
        assert Counter(found["blocks"]["verified"].to_pylist()) == {"bloom": 16, "receipts": 4}
        assert hashed({"logs": found["logs"]}) == hashed(
            {"logs": from_the_node(node, 2, 21)["logs"]}
        )


def test_a_log_that_no_answer_has_is_refused(node: Anvil, tmp_path: Path) -> None:
    with (
        faulty(node.url, drop_every=1, drop_blocks=frozenset({17})) as provider,
        pytest.raises(Untrue, match="block 17") as refused,
    ):
        run(provider.url, 1, LAST, tmp_path)
    assert (refused.value.retryable, refused.value.upstream_fault) == (True, "untrue")


def a_hash(block: Any) -> None:
    block["hash"] = "0x" + "ab" * 32


def a_parent(block: Any) -> None:
    block["parentHash"] = "0x" + "cd" * 32


def a_miner(block: Any) -> None:
    block["miner"] = "0x" + "11" * 20


def a_time(block: Any) -> None:
    block["timestamp"] = hex(int(block["timestamp"], 16) + 1)


def a_root(block: Any) -> None:
    block["receiptsRoot"] = "0x" + "22" * 32


def a_value(block: Any) -> None:
    if isinstance(block["transactions"][0], dict):
        block["transactions"][0]["value"] = "0x5"


def a_missing_transaction(block: Any) -> None:
    block["transactions"].pop()


@pytest.mark.parametrize(
    "lie", [a_hash, a_parent, a_miner, a_time, a_root, a_value, a_missing_transaction]
)
def test_a_lie_about_a_block_is_refused(
    node: Anvil, tmp_path: Path, lie: Callable[[Any], None]
) -> None:
    with (
        faulty(node.url, change_blocks={12: lie}) as provider,
        pytest.raises(ChainError) as refused,
    ):
        run(provider.url, 1, LAST, tmp_path)
    assert refused.value.retryable
    assert "12" in refused.value.message or "13" in refused.value.message


def test_a_range_of_two_forks_is_refused(node: Anvil, tmp_path: Path) -> None:
    with Anvil(seed=7) as other:
        other.traffic(LAST, transactions=1, transfers=2)
        with (
            faulty(node.url, other_node=other.url, other_from=15) as provider,
            pytest.raises(ChainError) as refused,
        ):
            run(provider.url, 1, LAST, tmp_path)
    assert refused.value.retryable


def test_a_provider_that_lags_is_refused_before_anything_is_read(
    node: Anvil, tmp_path: Path
) -> None:
    with faulty(node.url, behind=5) as provider, pytest.raises(Lagging):
        run(provider.url, 1, node.head, tmp_path)
    assert not list(tmp_path.glob("cryo-*"))


def breaks(*_: Any, **__: Any) -> Any:
    raise CryoFailed("it panicked")


def leaves_half_a_file(dataset: str, url: str, start: int, end: int, folder: Path, **_: Any) -> Any:
    folder.mkdir(parents=True)
    path = folder / "half.parquet"
    path.write_bytes(b"PAR1 and no more")
    return [path]


@pytest.mark.parametrize("freeze", [breaks, leaves_half_a_file])
@pytest.mark.parametrize("verify", ["receipts", "bloom"])
def test_what_cryo_cannot_read_is_read_without_it(
    node: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freeze: Any, verify: str
) -> None:
    monkeypatch.setattr("trace_chain.cryo_ingest.freeze", freeze)
    found = rows_of(run(node.url, 1, LAST, tmp_path, verify=verify))
    assert set(found["blocks"]["verified"].to_pylist()) == {verify}
    for name in ("transactions", "logs"):
        expected = from_the_node(node, 1, LAST)[name]
        assert hashed({name: found[name]}) == hashed({name: expected})


def no_size(block: Any) -> None:
    del block["size"]


def no_number(block: Any) -> None:
    block["number"] = None


@pytest.mark.parametrize("lie", [no_size, no_number])
@pytest.mark.parametrize("verify", ["receipts", "bloom"])
def test_a_provider_whose_words_break_cryo_is_blamed(
    node: Anvil, tmp_path: Path, lie: Callable[[Any], None], verify: str
) -> None:
    with (
        faulty(node.url, change_blocks={12: lie}) as provider,
        pytest.raises(ProviderFault) as refused,
    ):
        run(provider.url, 1, LAST, tmp_path, verify=verify)
    assert refused.value.upstream_fault == "malformed"


def through(provider: FaultyProvider, **limits: Any) -> EgressGateway:
    upstream = Upstream.model_validate(
        {
            "url": provider.url, "allow_private": True,
            "limits": {"retry_seconds": 0.02, "timeout_seconds": 0.4, **limits},
        }
    )  # fmt: skip
    return EgressGateway({"main": upstream}, jitter=lambda: 0.5)


def test_bursts_of_429_are_waited_out_by_the_gateway(node: Anvil, tmp_path: Path) -> None:
    with faulty(node.url, limit_every=4) as provider:
        gateway = through(provider, retries=12)
        with gateway.opened({"RPC_UPSTREAM": "main"}, 60) as opened:
            found = rows_of(run(opened.env["RPC_URL"], 1, LAST, tmp_path))
            assert opened.usage.rate_limited > 0
            assert opened.last_fault is None
        gateway.close()
        assert provider.told_429 > 0
    assert hashed(found) == hashed(from_the_node(node, 1, LAST))


def test_silence_is_tried_again_by_the_gateway(node: Anvil, tmp_path: Path) -> None:
    with faulty(node.url, silent_every=9, silent_seconds=1.0) as provider:
        gateway = through(provider)
        with gateway.opened({"RPC_UPSTREAM": "main"}, 60) as opened:
            found = rows_of(run(opened.env["RPC_URL"], 1, LAST, tmp_path))
            assert opened.usage.retries > 0
        gateway.close()
    assert hashed(found) == hashed(from_the_node(node, 1, LAST))


@pytest.mark.parametrize(
    ("fault", "error", "blamed"),
    [
        ({"limit_every": 1_000_000}, RateLimited, Fault.RATE_LIMITED),
        ({"silent_every": 1, "silent_seconds": 1.0}, NodeAway, Fault.TIMED_OUT),
    ],
)
def test_a_provider_that_never_answers_is_given_up_and_blamed(
    node: Anvil, tmp_path: Path, fault: dict[str, Any], error: type[ChainError], blamed: Fault
) -> None:
    with faulty(node.url, **fault) as provider:
        # From the first request on.
        provider.requests = fault.get("limit_every", 0)
        gateway = through(provider, retries=1)
        with gateway.opened({"RPC_UPSTREAM": "main"}, 60) as opened:
            with pytest.raises(error):
                run(opened.env["RPC_URL"], 1, LAST, tmp_path)
            assert opened.last_fault is blamed
        gateway.close()
