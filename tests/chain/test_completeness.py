"""Blocks of a real node are verified; whatever is changed in them is found before it is written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from trace_chain.columns import BLOCKS, LOGS, TRANSACTIONS, VERIFIED_BLOOM, VERIFIED_RECEIPTS
from trace_chain.completeness import check_chained, verify
from trace_chain.errors import (
    ChainError,
    ForkMoved,
    Malformed,
    RateLimited,
    RpcFailed,
    Untrue,
)
from trace_chain.node.anvil import Anvil
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import tables_of

Change = Callable[[dict[str, Any], list[dict[str, Any]]], Any]


@pytest.fixture(scope="module")
def pair() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block with all that can be in one, and its receipts."""
    with Anvil() as node:
        at = node.block(transfers=5, payments=140, reverts=2)
        block, receipts = node.rpc.batch(
            [("eth_getBlockByNumber", (hex(at), True)), ("eth_getBlockReceipts", (hex(at),))]
        )
    return block, receipts


@pytest.mark.parametrize("mode", [VERIFIED_RECEIPTS, VERIFIED_BLOOM])
def test_a_whole_block_is_verified_either_way(pair: Any, mode: str) -> None:
    found = verify(*pair, mode)
    assert (len(found.transactions), len(found.logs)) == (143, 5)
    assert found.block[-1] == mode
    assert [len(row) for row in (found.block, found.transactions[0], found.logs[0])] == [
        len(BLOCKS), len(TRANSACTIONS), len(LOGS),
    ]  # fmt: skip


def drop_a_log(_: Any, receipts: Any) -> None:
    receipts[0]["logs"].pop(2)
    for at, log in enumerate(receipts[0]["logs"]):
        log["logIndex"] = hex(at)


def drop_the_last_log(_: Any, receipts: Any) -> None:
    receipts[0]["logs"].pop()


def change_data(_: Any, receipts: Any) -> None:
    receipts[0]["logs"][1]["data"] = "0x" + "01" * 32


def change_topic(_: Any, receipts: Any) -> None:
    receipts[0]["logs"][1]["topics"][2] = "0x" + "07" * 32


def drop_all_logs_and_their_bloom(block: Any, receipts: Any) -> None:
    block["logsBloom"] = receipts[0]["logsBloom"] = "0x" + "00" * 256
    receipts[0]["logs"] = []


def drop_a_receipt(_: Any, receipts: Any) -> None:
    receipts.pop()


def drop_a_transaction(block: Any, receipts: Any) -> None:
    block["transactions"].pop()
    block["gasUsed"] = hex(int(block["gasUsed"], 16) - int(receipts.pop()["gasUsed"], 16))


def change_value(block: Any, _: Any) -> None:
    block["transactions"][1]["value"] = "0x123456"


def change_hash(block: Any, receipts: Any) -> None:
    block["transactions"][1]["hash"] = receipts[1]["transactionHash"] = "0x" + "05" * 32


def change_status(_: Any, receipts: Any) -> None:
    receipts[-1]["status"] = "0x1"


def change_gas(_: Any, receipts: Any) -> None:
    receipts[0]["gasUsed"] = "0x1"


def change_parent(block: Any, _: Any) -> None:
    block["parentHash"] = "0x" + "09" * 32


def change_time(block: Any, _: Any) -> None:
    block["timestamp"] = "0x60000000"


def swap_receipts(_: Any, receipts: Any) -> None:
    receipts[1], receipts[2] = receipts[2], receipts[1]


EITHER_WAY = [
    drop_a_receipt, drop_a_transaction, change_topic, change_gas, swap_receipts, change_hash,
]  # fmt: skip
BY_RECEIPTS = [
    drop_a_log, drop_the_last_log, change_data, drop_all_logs_and_their_bloom, change_value,
    change_status, change_parent, change_time,
]  # fmt: skip


@pytest.mark.parametrize("change", EITHER_WAY + BY_RECEIPTS)
def test_nothing_can_be_left_out_or_changed(pair: Any, change: Change) -> None:
    block, receipts = copy.deepcopy(pair)
    change(block, receipts)
    with pytest.raises(Untrue) as caught:
        verify(block, receipts)
    assert caught.value.number == int(pair[0]["number"], 16)
    assert caught.value.retryable


@pytest.mark.parametrize("change", [drop_a_log, drop_the_last_log, change_topic])
def test_the_bloom_alone_tells_of_logs_that_are_missing(pair: Any, change: Change) -> None:
    block, receipts = copy.deepcopy(pair)
    change(block, receipts)
    with pytest.raises(Untrue):
        verify(block, receipts, VERIFIED_BLOOM)


def another_price(_: Any, receipts: Any) -> None:
    for receipt in receipts:
        receipt["effectiveGasPrice"] = "0x7"


def no_price(_: Any, receipts: Any) -> None:
    for receipt in receipts:
        del receipt["effectiveGasPrice"]


def fees_that_it_has_not(block: Any, _: Any) -> None:
    for each in block["transactions"]:
        if each["type"] in ("0x0", "0x1"):
            each.update(maxFeePerGas="0x7", maxPriorityFeePerGas="0x8")


@pytest.mark.parametrize("change", [another_price, no_price, fees_that_it_has_not])
def test_a_price_is_computed_from_what_hashes_cover_whatever_is_told_of_it(
    anvil: Anvil, change: Change
) -> None:
    anvil.block(transfers=2, payments=3)
    raw_kinds(anvil)
    anvil.mine()
    for at in range(2, anvil.head + 1):
        block, receipts = anvil.rpc.batch(
            [("eth_getBlockByNumber", (hex(at), True)), ("eth_getBlockReceipts", (hex(at),))]
        )
        expected = verify(block, receipts)
        paid = [row[10] for row in expected.transactions]
        assert paid == [str(int(each["effectiveGasPrice"], 16)) for each in receipts]
        change(block, receipts)
        assert verify(block, receipts) == expected


def test_receipts_of_another_fork_are_no_lie(pair: Any) -> None:
    block, receipts = copy.deepcopy(pair)
    for receipt in receipts:
        receipt["blockHash"] = "0x" + "11" * 32
    with pytest.raises(ForkMoved):
        verify(block, receipts)


def remove(name: str) -> Change:
    return lambda block, _: block.pop(name)


@pytest.mark.parametrize(
    "change",
    [
        remove("hash"), remove("transactions"), remove("size"), remove("logsBloom"),
        lambda block, _: block.update(number=7),
        lambda block, _: block.update(miner="0x1234"),
        lambda block, _: block.update(timestamp="0xffffffffffff"),
        lambda block, receipts: receipts[0].pop("logs"),
        lambda block, receipts: receipts[0].update(logs=[None]),
        lambda block, receipts: block["transactions"][0].update(type="0x7e"),
    ],
)  # fmt: skip
def test_another_form_is_named_as_such(pair: Any, change: Change) -> None:
    block, receipts = copy.deepcopy(pair)
    change(block, receipts)
    with pytest.raises(Malformed):
        verify(block, receipts)


def raw_kinds(node: Anvil) -> None:
    """Transactions of the older kinds, and one that makes a contract."""
    sender, to = node.accounts[:2]
    price = {"gasPrice": hex(10**11)}
    node.send({"from": sender, "to": to, "value": "0x1", "gas": "0x5208", **price})
    entry = {"address": to, "storageKeys": ["0x" + "01" * 32, "0x" + "00" * 32]}
    node.send({"from": sender, "to": to, "gas": "0xfde8", **price, "accessList": [entry]})
    node.send({"from": sender, "data": "0x600160005500", "gas": "0x186a0", **price})


def test_all_kinds_of_transactions_and_blocks_are_read_as_they_are(anvil: Anvil) -> None:
    raw_kinds(anvil)
    for at in range(12):
        anvil.block(transfers=at * 3, payments=at, reverts=at % 3)
    anvil.mine(5)
    with Rpc(anvil.url) as rpc:
        reader = BlockReader(rpc, batch=4)
        blocks = list(reader.blocks(0, anvil.head))
        heads = reader.heads()
    check_chained(blocks)
    assert [each.number for each in blocks] == list(range(anvil.head + 1))
    assert heads.latest.hash == blocks[-1].hash
    assert heads.safe is not None and heads.finalized is not None
    assert heads.finalized <= heads.safe <= heads.latest.number
    block_table, transactions, logs = tables_of(blocks)
    assert logs.num_rows == sum(each["log_count"] for each in block_table.to_pylist())
    assert set(transactions["type"].to_pylist()) == {0, 1, 2}
    made = [row for row in transactions.to_pylist() if row["to_address"] is None]
    assert len(made) == 2
    for row in made:
        receipt = anvil.rpc.call("eth_getTransactionReceipt", row["hash"])
        assert row["contract_address"] == receipt["contractAddress"].lower()
    for log in logs.to_pylist():
        # The token says the same value twice: the low bytes of one are the other.
        assert log["topic2"][-40:] == log["data"][-40:]


@pytest.mark.parametrize(("error", "told"), [(RpcFailed, True), (RateLimited, False)])
def test_finality_that_a_chain_lacks_is_none_and_one_that_was_not_told_is_asked_for_again(
    anvil: Anvil, error: type[ChainError], told: bool
) -> None:
    class Half(Rpc):
        def try_batch(self, calls: Any) -> list[Any]:
            latest, *others = super().try_batch(calls)
            return [latest, *(error("no") for _ in others)]

    with Half(anvil.url) as rpc:
        reader = BlockReader(rpc)
        if told:
            assert (reader.heads().safe, reader.heads().finalized) == (None, None)
        else:
            with pytest.raises(RateLimited):
                reader.heads()


def test_a_node_without_receipts_of_blocks_is_asked_for_them_one_by_one(anvil: Anvil) -> None:
    class Old(Rpc):
        asked = 0

        def try_batch(self, calls: Any) -> list[Any]:
            answers = super().try_batch(
                [("no_such_method", ()) if name == "eth_getBlockReceipts" else (name, params)
                 for name, params in calls]
            )  # fmt: skip
            Old.asked += sum(name == "eth_getBlockReceipts" for name, _ in calls)
            return answers

    anvil.traffic(5)
    anvil.mine(2)
    with Rpc(anvil.url) as rpc, Old(anvil.url, connections=1) as old:
        expected = list(BlockReader(rpc).blocks(0, anvil.head))
        assert list(BlockReader(old, batch=3).blocks(0, anvil.head)) == expected
    assert Old.asked <= 9, "asked again and again for what it does not have"


def test_what_the_node_does_not_have_yet_ends_the_reading_after_what_it_has(anvil: Anvil) -> None:
    anvil.mine(9)
    with Rpc(anvil.url) as rpc:
        got = []
        with pytest.raises(ChainError, match="does not have block 11"):
            for block in BlockReader(rpc, batch=4).blocks(0, 100):
                got.append(block.number)
    assert got == list(range(11))
