"""The bundled chain serves where there is no anvil, with the same blocks and one real reorg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chain.follow_world import FollowWorld, clean_build
from trace_chain.completeness import check_chained
from trace_chain.errors import MethodMissing
from trace_chain.node import bundled
from trace_chain.node.bundled import BundledChain, Exhausted, start_node
from trace_chain.node.install import NoAnvil
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc


@pytest.fixture
def chain() -> Iterator[BundledChain]:
    with BundledChain() as made:
        yield made


def test_both_forks_are_whole_chains_that_verify(chain: BundledChain) -> None:
    found = []
    for fork in (0, 1):
        chain.mine(78 - chain.head) if fork == 0 else chain.reorg(chain.head - chain.fork_base)
        with Rpc(chain.url) as rpc:
            blocks = list(BlockReader(rpc).blocks(0, chain.head))
            heads = BlockReader(rpc).heads()
        check_chained(blocks)
        assert (heads.latest.number, heads.safe, heads.finalized) == (78, 70, 62)
        assert sum(len(each.logs) for each in blocks) > 50
        found.append([each.hash for each in blocks])
    base = chain.fork_base + 1
    assert found[0][:base] == found[1][:base]
    assert not set(found[0][base:]) & set(found[1][base:])


def test_logs_and_receipts_are_found_as_a_node_finds_them(chain: BundledChain) -> None:
    chain.mine(40)
    with Rpc(chain.url) as rpc:
        every = rpc.call("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"})
        assert len(every) > 30
        log = every[7]
        one = {"blockHash": log["blockHash"], "address": log["address"].upper().replace("X", "x")}
        assert log in rpc.call("eth_getLogs", one)
        wanted = {"fromBlock": "0x0", "topics": [None, None, [log["topics"][2]]]}
        assert {each["topics"][2] for each in rpc.call("eth_getLogs", wanted)} == {log["topics"][2]}
        receipt = rpc.call("eth_getTransactionReceipt", log["transactionHash"])
        assert log in receipt["logs"]
        assert rpc.call("eth_getBlockByNumber", "0x50", False) is None
        with pytest.raises(MethodMissing):
            rpc.call("eth_sendTransaction", {})


def test_what_was_not_recorded_is_refused(chain: BundledChain) -> None:
    with pytest.raises(Exhausted):
        chain.mine(200)
    with pytest.raises(Exhausted):
        chain.reorg(5)


def test_it_takes_the_place_of_anvil(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_anvil() -> None:
        raise NoAnvil("no npm here")

    monkeypatch.setattr(bundled, "Anvil", no_anvil)
    node = start_node()
    try:
        assert isinstance(node, BundledChain)
        assert node.mine(3) == node.head == 4
    finally:
        node.close()


def test_a_follower_follows_it_through_its_reorg(
    state_dsn: str, data_dsn: str, tmp_path: Path, chain: BundledChain
) -> None:
    chain.mine(64)
    world = FollowWorld(state_dsn, data_dsn, tmp_path, chain.url)
    try:
        world.deploy()
        world.follow()
        chain.reorg(chain.head - chain.fork_base)
        world.follow()
        assert world.commits()[-1].range_start == chain.fork_base + 1
        chain.mine(10)
        world.follow()
        assert world.hashes() == clean_build(chain.url)
    finally:
        world.close()
