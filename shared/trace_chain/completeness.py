"""Nothing missing and nothing false: a block is checked before any row of it is written.

| verdict | what was compared |
|---|---|
| `receipts` | header with its hash, transactions and receipts with the roots in it: exact |
| `bloom` | logs with the bloom in the header, receipts with the gas used; an absence can hide |

Both chain blocks by their parents' hashes, count, and place every transaction and log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from trace_chain import roots
from trace_chain.bloom import bloom_of
from trace_chain.columns import VERIFIED_BLOOM, VERIFIED_RECEIPTS
from trace_chain.errors import ForkMoved, Malformed, Untrue
from trace_chain.hexes import data, number, text_of, uint256

Json = Mapping[str, Any]
Row = tuple[Any, ...]

_MODES = (VERIFIED_RECEIPTS, VERIFIED_BLOOM)
_INT16_END, _INT32_END = 2**15, 2**31
_TIME_END = 253_402_300_800
_SHAPES = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What JSON of another form than expected raises."""


@dataclass(frozen=True)
class Block:
    """One block that was verified, as rows in the order of `columns.py`."""

    number: int
    hash: str
    parent_hash: str
    block: Row
    transactions: Sequence[Row]
    logs: Sequence[Row]

    @property
    def row_count(self) -> int:
        return 1 + len(self.transactions) + len(self.logs)


@dataclass(frozen=True)
class Header:
    number: int
    hash: str
    parent_hash: str
    timestamp: datetime


def read_header(block: Json) -> Header:
    """Of a block with or without its transactions."""
    try:
        return Header(
            number(block["number"]),
            text_of(data(block["hash"], 32)),
            text_of(data(block["parentHash"], 32)),
            datetime.fromtimestamp(number(block["timestamp"], _TIME_END), UTC),
        )
    except _SHAPES as error:
        raise Malformed(f"a block's header has another form: {_said(error)}") from error


def verify(block: Json, receipts: Sequence[Json], mode: str = VERIFIED_RECEIPTS) -> Block:
    """The rows of a block as a node gives it, with all its transactions, and its receipts.

    Raises `Untrue` for what contradicts the header, `ForkMoved` when the receipts are those of
    another block, `Malformed` for another form.
    """
    if mode not in _MODES:
        raise ValueError(f"{mode!r} is no way to verify a block; there are {', '.join(_MODES)}")
    header = read_header(block)
    try:
        return _verify(header, block, receipts, mode)
    except roots.UnknownType as error:
        raise Malformed(f"block {header.number}: {error}; `verify: bloom` leaves it out") from error
    except _SHAPES as error:
        raise Malformed(f"block {header.number} has another form: {_said(error)}") from error


def logs_bloom(logs: Iterable[tuple[bytes, Sequence[bytes]]]) -> int:
    """The bloom of logs, given as address and topics: what their block's header must hold."""
    return bloom_of(value for address, topics in logs for value in (address, *topics))


def check_bloom(
    block_number: int, said: str, logs: Iterable[tuple[bytes, Sequence[bytes]]]
) -> None:
    """Raise `Untrue` unless these are logs that give the bloom of the header."""
    if logs_bloom(logs) != int.from_bytes(data(said, 256), "big"):
        raise Untrue(
            f"block {block_number}: its logs do not give the bloom in its header: some are missing"
            " or changed",
            number=block_number,
        )


def check_chained(blocks: Sequence[Block | Header]) -> None:
    """Raise `ForkMoved` unless each is the child of the one before."""
    for parent, child in pairwise(blocks):
        if child.number != parent.number + 1 or child.parent_hash != parent.hash:
            raise ForkMoved(f"block {child.number} is no child of the block {parent.number} read")


def _verify(header: Header, block: Json, receipts: Sequence[Json], mode: str) -> Block:
    transactions = block["transactions"]
    at = header.number
    if len(receipts) != len(transactions):
        raise _untrue(at, f"{len(transactions)} transactions and {len(receipts)} receipts")
    for receipt in receipts:
        if receipt["blockHash"].lower() != header.hash:
            raise ForkMoved(f"block {at} was replaced while it was read")
    _check_places(header, transactions, receipts)
    _check_gas(header, block, receipts)
    if mode == VERIFIED_RECEIPTS:
        _check_roots(header, block, transactions, receipts)
    else:
        logs = [log for receipt in receipts for log in receipt["logs"]]
        parsed = [(data(log["address"], 20), [data(t, 32) for t in log["topics"]]) for log in logs]
        check_bloom(at, block["logsBloom"], parsed)
    transaction_rows = [
        _transaction_row(header, place, *pair, _price(block, *pair, mode))
        for place, pair in enumerate(zip(transactions, receipts, strict=True))
    ]
    log_rows = _log_rows(at, header.hash, receipts)
    row = _block_row(header, block, len(transaction_rows), len(log_rows), mode)
    return Block(at, header.hash, header.parent_hash, row, transaction_rows, log_rows)


def _check_places(header: Header, transactions: Sequence[Json], receipts: Sequence[Json]) -> None:
    index = 0
    for place, (transaction, receipt) in enumerate(zip(transactions, receipts, strict=True)):
        same = transaction["hash"].lower()
        placed = (number(transaction["transactionIndex"]), number(receipt["transactionIndex"]))
        if receipt["transactionHash"].lower() != same or placed != (place, place):
            raise _untrue(header.number, f"transaction {place} and its receipt do not fit together")
        if transaction["blockHash"].lower() != header.hash:
            raise _untrue(header.number, f"transaction {place} claims to be in another block")
        for log in receipt["logs"]:
            said = (log["blockHash"].lower(), log["transactionHash"].lower())
            if said != (header.hash, same) or number(log["logIndex"]) != index:
                raise _untrue(header.number, f"log {index} is missing or out of its place")
            index += 1


def _check_gas(header: Header, block: Json, receipts: Sequence[Json]) -> None:
    total = 0
    for place, receipt in enumerate(receipts):
        total += number(receipt["gasUsed"])
        if number(receipt["cumulativeGasUsed"]) != total:
            raise _untrue(header.number, f"the gas used up to transaction {place} does not add up")
    if total != number(block["gasUsed"]):
        raise _untrue(header.number, "the gas used by its transactions is not that of the block")


def _check_roots(
    header: Header, block: Json, transactions: Sequence[Json], receipts: Sequence[Json]
) -> None:
    if text_of(roots.header_hash(block)) != header.hash:
        raise _untrue(header.number, "its header does not give its hash")
    root, hashes = roots.transactions_root(transactions)
    if root != data(block["transactionsRoot"], 32):
        raise _untrue(header.number, "its transactions do not give the root in its header")
    for place, (transaction, computed) in enumerate(zip(transactions, hashes, strict=True)):
        if data(transaction["hash"], 32) != computed:
            raise _untrue(header.number, f"transaction {place} does not give its hash")
    if roots.receipts_root(receipts) != data(block["receiptsRoot"], 32):
        raise _untrue(
            header.number,
            "its receipts do not give the root in its header: logs are missing or changed",
        )


def _block_row(header: Header, block: Json, transactions: int, logs: int, verified: str) -> Row:
    base_fee = block.get("baseFeePerGas")
    return (
        header.number,
        header.hash,
        header.parent_hash,
        header.timestamp,
        text_of(data(block["miner"], 20)),
        number(block["gasUsed"]),
        None if base_fee is None else str(uint256(base_fee)),
        text_of(data(block["logsBloom"], 256)),
        text_of(data(block["transactionsRoot"], 32)),
        text_of(data(block["receiptsRoot"], 32)),
        text_of(data(block["stateRoot"], 32)),
        transactions,
        logs,
        number(block["size"]),
        text_of(data(block["extraData"])),
        verified,
    )


def _price(block: Json, transaction: Json, receipt: Json, mode: str) -> str | None:
    if mode == VERIFIED_RECEIPTS:
        # No hash covers what the node says of it, but all that it follows from.
        return str(roots.effective_price(transaction, block.get("baseFeePerGas")))
    return _amount(receipt.get("effectiveGasPrice") or transaction.get("gasPrice"))


def _transaction_row(
    header: Header, place: int, transaction: Json, receipt: Json, price: str | None
) -> Row:
    sender, nonce = text_of(data(transaction["from"], 20)), number(transaction["nonce"])
    to, status = transaction.get("to"), receipt.get("status")
    kind = number(transaction.get("type") or "0x0", _INT16_END)
    # The first two kinds have no such fees, and no hash would cover what a node tells of them.
    fees = {} if kind < 2 else transaction
    return (
        header.number,
        header.hash,
        place,
        text_of(data(transaction["hash"], 32)),
        sender,
        text_of(data(to, 20)) if to else None,
        str(uint256(transaction["value"])),
        nonce,
        text_of(data(transaction["input"])),
        number(transaction["gas"]),
        price,
        _amount(fees.get("maxFeePerGas")),
        _amount(fees.get("maxPriorityFeePerGas")),
        kind,
        None if status is None else number(status, 2),
        number(receipt["gasUsed"]),
        number(receipt["cumulativeGasUsed"]),
        None if to else roots.contract_address(sender, nonce),
    )


def _log_rows(block_number: int, block_hash: str, receipts: Sequence[Json]) -> list[Row]:
    rows: list[Row] = []
    for place, receipt in enumerate(receipts):
        hash_ = receipt["transactionHash"].lower()
        for log in receipt["logs"]:
            topics = [text_of(data(topic, 32)) for topic in log["topics"]]
            if len(topics) > 4:
                raise ValueError(f"a log with {len(topics)} topics")
            rows.append(
                (
                    block_number,
                    block_hash,
                    hash_,
                    place,
                    len(rows),
                    text_of(data(log["address"], 20)),
                    *topics,
                    *[None] * (4 - len(topics)),
                    text_of(data(log["data"])),
                )
            )
    return rows


def _amount(text: str | None) -> str | None:
    return None if text is None else str(uint256(text))


def _untrue(block_number: int, what: str) -> Untrue:
    return Untrue(f"block {block_number} is refused: {what}", number=block_number)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
