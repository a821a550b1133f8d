"""What a block's header says of its content, computed from the JSON of a node.

Fields that no hash covers are the size of a block, the sender of a transaction, which its signature
tells, and what a node computes beside: effective price and contract address, which follow from the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_chain.encoding import keccak, list_root, rlp_bytes, rlp_list, rlp_number
from trace_chain.hexes import data, uint256

Json = Mapping[str, Any]

_HEADER = (
    ("parentHash", 32), ("sha3Uncles", 32), ("miner", 20), ("stateRoot", 32),
    ("transactionsRoot", 32), ("receiptsRoot", 32), ("logsBloom", 256), ("difficulty", None),
    ("number", None), ("gasLimit", None), ("gasUsed", None), ("timestamp", None),
    ("extraData", 0), ("mixHash", 32), ("nonce", 8),
)  # fmt: skip
_LATER = (
    ("baseFeePerGas", None), ("withdrawalsRoot", 32), ("blobGasUsed", None),
    ("excessBlobGas", None), ("parentBeaconBlockRoot", 32), ("requestsHash", 32),
)  # fmt: skip
"""Added by later forks, one after the other: what a block lacks ends its header."""


class UnknownType(ValueError):
    """A transaction of a kind that only its own chain knows."""


def header_hash(block: Json) -> bytes:
    fields = [_field(block[name], size) for name, size in _HEADER]
    for name, size in _LATER:
        if block.get(name) is None:
            break
        fields.append(_field(block[name], size))
    return keccak(rlp_list(fields))


def transactions_root(transactions: Sequence[Json]) -> tuple[bytes, list[bytes]]:
    """With the hash of each transaction."""
    encoded = [encode_transaction(each) for each in transactions]
    return list_root(encoded), [keccak(each) for each in encoded]


def receipts_root(receipts: Sequence[Json]) -> bytes:
    return list_root([encode_receipt(each) for each in receipts])


def contract_address(sender: str, nonce: int) -> str:
    """Of the contract that a transaction makes."""
    return "0x" + keccak(rlp_list((rlp_bytes(data(sender, 20)), rlp_number(nonce))))[12:].hex()


def effective_price(transaction: Json, base_fee: str | None) -> int:
    """What a unit of gas cost, of a kind that `encode_transaction` knows."""
    if uint256(transaction.get("type") or "0x0") < 2:
        return uint256(transaction["gasPrice"])
    most, tip = (uint256(transaction[n]) for n in ("maxFeePerGas", "maxPriorityFeePerGas"))
    return most if base_fee is None else min(most, uint256(base_fee) + tip)


def encode_receipt(receipt: Json) -> bytes:
    outcome = receipt.get("status")
    first = rlp_bytes(data(receipt["root"], 32)) if outcome is None else _number(outcome)
    logs = [
        rlp_list(
            (
                b"\x94" + data(log["address"], 20),
                rlp_list([b"\xa0" + data(topic, 32) for topic in log["topics"]]),
                rlp_bytes(data(log["data"])),
            )
        )
        for log in receipt["logs"]
    ]
    fields = [
        first,
        _number(receipt["cumulativeGasUsed"]),
        rlp_bytes(data(receipt["logsBloom"], 256)),
        rlp_list(logs),
    ]
    kind = uint256(receipt.get("type") or "0x0")
    if kind > 4:
        raise UnknownType(f"receipts of type {kind} are encoded in a way that we do not know")
    body = rlp_list(fields)
    return bytes((kind,)) + body if kind else body


def encode_transaction(transaction: Json) -> bytes:
    kind = uint256(transaction.get("type") or "0x0")
    read = transaction.__getitem__
    to = transaction.get("to")
    target = [
        rlp_bytes(data(to, 20)) if to else b"\x80",
        _number(read("value")),
        rlp_bytes(data(read("input"))),
    ]
    if kind == 0:
        price = [_number(read("gasPrice")), _number(read("gas"))]
        signed = [_number(read(name)) for name in ("v", "r", "s")]
        return rlp_list([_number(read("nonce")), *price, *target, *signed])
    fields = [_number(read("chainId")), _number(read("nonce"))]
    if kind == 1:
        fields += [_number(read("gasPrice")), _number(read("gas"))]
    elif kind in (2, 3, 4):
        names = ("maxPriorityFeePerGas", "maxFeePerGas", "gas")
        fields += [_number(read(name)) for name in names]
    else:
        raise UnknownType(f"transactions of type {kind} are encoded in a way that we do not know")
    fields += [*target, _access_list(transaction.get("accessList") or ())]
    if kind == 3:
        hashes = [rlp_bytes(data(each, 32)) for each in read("blobVersionedHashes")]
        fields += [_number(read("maxFeePerBlobGas")), rlp_list(hashes)]
    if kind == 4:
        fields.append(rlp_list([_authorization(each) for each in read("authorizationList")]))
    parity = transaction.get("yParity")
    fields += [_number(read("v") if parity is None else parity), _number(read("r"))]
    fields.append(_number(read("s")))
    return bytes((kind,)) + rlp_list(fields)


def _access_list(entries: Sequence[Json]) -> bytes:
    return rlp_list(
        [
            rlp_list(
                (
                    rlp_bytes(data(entry["address"], 20)),
                    rlp_list([rlp_bytes(data(key, 32)) for key in entry["storageKeys"]]),
                )
            )
            for entry in entries
        ]
    )


def _authorization(entry: Json) -> bytes:
    address = rlp_bytes(data(entry["address"], 20))
    rest = [_number(entry[name]) for name in ("nonce", "yParity", "r", "s")]
    return rlp_list([_number(entry["chainId"]), address, *rest])


def _field(text: str, size: int | None) -> bytes:
    """A number without a size; bytes of any size with 0."""
    return _number(text) if size is None else rlp_bytes(data(text, size or None))


def _number(text: str) -> bytes:
    return rlp_number(uint256(text))
