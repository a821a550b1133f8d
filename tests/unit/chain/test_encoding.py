"""RLP, Keccak, tries and blooms against values that everybody knows."""

from __future__ import annotations

import pytest

from trace_chain.bloom import BITS, bloom_of
from trace_chain.encoding import EMPTY_ROOT, keccak, list_root, rlp_bytes, rlp_list, rlp_number
from trace_chain.hexes import data, number, uint256
from trace_chain.roots import UnknownType, contract_address, encode_receipt, encode_transaction


def test_keccak_is_that_of_ethereum_and_not_sha3() -> None:
    assert keccak(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (rlp_bytes(b"dog"), "83646f67"),
        (rlp_list([rlp_bytes(b"cat"), rlp_bytes(b"dog")]), "c88363617483646f67"),
        (rlp_bytes(b""), "80"),
        (rlp_number(0), "80"),
        (rlp_number(15), "0f"),
        (rlp_number(128), "8180"),
        (rlp_number(1024), "820400"),
        (rlp_list([]), "c0"),
        (rlp_bytes(b"a" * 56), "b838" + "61" * 56),
        (rlp_list([rlp_bytes(b"a" * 60)]), "f83e" + "b83c" + "61" * 60),
        (rlp_bytes(b"a" * 1024), "b90400" + "61" * 1024),
    ],
)
def test_rlp_encodes_as_its_specification_says(encoded: bytes, expected: str) -> None:
    assert encoded.hex() == expected


def test_the_root_of_nothing_is_the_one_that_empty_blocks_show() -> None:
    assert list_root([]) == EMPTY_ROOT == keccak(rlp_bytes(b""))


def test_every_item_and_every_place_changes_the_root() -> None:
    items = [bytes([at % 251, at // 251]) * 20 for at in range(300)]
    seen = {list_root(items)}
    for at in (0, 1, 15, 16, 127, 128, 255, 256, 299):
        seen.add(list_root([*items[:at], b"other", *items[at + 1 :]]))
        seen.add(list_root(items[:at] + items[at + 1 :]))
    seen.add(list_root([items[1], items[0], *items[2:]]))
    assert len(seen) == 20


def test_a_value_leaves_at_most_three_bits_in_the_bloom() -> None:
    one, other = bloom_of([b"one"]), bloom_of([b"other"])
    assert 1 <= one.bit_count() <= 3
    assert one < 1 << BITS
    assert bloom_of([b"one", b"other", b"one"]) == one | other


def test_the_address_of_a_contract_follows_from_sender_and_nonce() -> None:
    # The first contracts of anvil's and of hardhat's first account.
    sender = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    assert contract_address(sender, 0) == "0x5fbdb2315678afecb367f032d93f642f64180aa3"
    assert contract_address(sender, 1) == "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512"


@pytest.mark.parametrize("text", ["10", "0x", "0x1_0", "0x-1", "0xzz", "", "0x 1", "0X1"])
def test_what_is_no_hex_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        number(text)


def test_numbers_have_the_room_of_their_columns() -> None:
    assert number("0x7fffffffffffffff") == 2**63 - 1
    with pytest.raises(ValueError):
        number("0x8000000000000000")
    assert uint256("0x" + "f" * 64) == 2**256 - 1
    with pytest.raises(ValueError):
        uint256("0x1" + "0" * 64)


@pytest.mark.parametrize("text", ["0x1", "0xab cd", "abcd", "0xgg", "0xab\n"])
def test_what_are_no_hex_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        data(text)


def test_bytes_have_the_size_that_is_asked_for() -> None:
    assert data("0xabcd", 2) == b"\xab\xcd"
    with pytest.raises(ValueError):
        data("0xabcd", 3)


def test_kinds_of_transactions_that_only_their_chain_knows_are_named() -> None:
    receipt = {
        "type": "0x7e", "status": "0x1", "cumulativeGasUsed": "0x1", "logs": [],
        "logsBloom": "0x" + "00" * 256,
    }  # fmt: skip
    with pytest.raises(UnknownType, match="126"):
        encode_receipt(receipt)
    sent = {"type": "0x7e", "value": "0x0", "input": "0x", "chainId": "0x1", "nonce": "0x0"}
    with pytest.raises(UnknownType, match="126"):
        encode_transaction(sent)
