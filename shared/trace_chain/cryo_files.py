"""What Cryo reads of a range of blocks, in the form in which a node tells it.

Cryo's ranges are half-open and ours are not; its hex values and numbers become those of JSON-RPC,
so that one function judges blocks wherever they come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_chain.bloom import bloom_of
from trace_chain.errors import CryoFailed

Json = dict[str, Any]
Row = Mapping[str, Any]

_COLUMNS = {
    "blocks": (
        "block_number", "block_hash", "parent_hash", "timestamp", "author", "gas_used",
        "base_fee_per_gas", "logs_bloom", "transactions_root", "receipts_root", "state_root",
        "size", "extra_data",
    ),
    "transactions": (
        "block_number", "block_hash", "transaction_index", "transaction_hash", "from_address",
        "to_address", "value", "nonce", "input", "gas_limit", "gas_price", "max_fee_per_gas",
        "max_priority_fee_per_gas", "transaction_type", "success", "gas_used",
    ),
    "logs": (
        "block_number", "block_hash", "transaction_index", "log_index", "transaction_hash",
        "address", "topic0", "topic1", "topic2", "topic3", "data",
    ),
}  # fmt: skip
_TOPICS = ("topic0", "topic1", "topic2", "topic3")


@dataclass
class Told:
    """One block as Cryo has it; `block` only if its blocks were asked for."""

    block: Json | None = None
    transactions: list[Json] = field(default_factory=list)
    receipts: list[Json] = field(default_factory=list)
    whole: bool = True
    """Whether what it has can be checked: without a status it cannot."""


def freeze(
    dataset: str, url: str, start: int, end: int, folder: Path, *, requests: int, chunk: int
) -> list[Path]:
    """Have Cryo write what it reads of the range, both ends included; the files in their order.

    It tries nothing again by itself: the gateway has done so already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = asyncio.run(_freeze(dataset, url, start, end, folder, requests, chunk))
    except Exception as error:
        # Not its words: they hold the address, and with it the token.
        raise CryoFailed(f"Cryo could not read {dataset}: {type(error).__name__}") from None
    if done["n_errored"] or done["n_skipped"]:
        raise CryoFailed(
            f"Cryo could not read all {dataset}: {done['n_errored']} chunks are missing"
        )
    return sorted(folder.glob("*.parquet"))


async def _freeze(
    dataset: str, url: str, start: int, end: int, folder: Path, requests: int, chunk: int
) -> Json:
    import cryo

    done: Json = await cryo.async_freeze(
        dataset,
        blocks=[f"{start}:{end + 1}"],
        rpc=url,
        output_dir=str(folder),
        columns=list(_COLUMNS[dataset]),
        hex=True,
        u256_types=["string"],
        chunk_size=chunk,
        max_concurrent_requests=requests,
        max_concurrent_chunks=2,
        max_retries=0,
        no_report=True,
        verbose=False,
    )
    return done


def cryo_is_here() -> bool:
    """There are wheels of it for x86-64 alone, and functions on AWS run on another processor."""
    return importlib.util.find_spec("cryo") is not None


def chunks(start: int, end: int, size: int) -> Iterator[range]:
    for first in range(start, end + 1, size):
        yield range(first, min(first + size, end + 1))


def read_told(numbers: range, files: Mapping[str, Sequence[Path]]) -> dict[int, Told]:
    """What the files of one chunk say of these blocks."""
    try:
        return _read_told(numbers, files)
    except (TypeError, ValueError, KeyError, OSError) as error:
        # A file that was not finished, or nothing where each block has something.
        raise CryoFailed(f"what Cryo wrote cannot be read: {type(error).__name__}") from error


def _read_told(numbers: range, files: Mapping[str, Sequence[Path]]) -> dict[int, Told]:
    told = {at: Told() for at in numbers}
    logs: dict[tuple[int, int], list[Json]] = defaultdict(list)
    for row in _rows(files["logs"]):
        logs[row["block_number"], row["transaction_index"]].append(_log(row))
    used: dict[int, int] = defaultdict(int)
    for row in sorted(_rows(files["transactions"]), key=_place):
        at = row["block_number"]
        if at not in told:
            continue
        used[at] += row["gas_used"] or 0
        of_block = told[at]
        of_block.whole = of_block.whole and None not in (row["success"], row["gas_used"])
        of_block.transactions.append(_transaction(row))
        found = logs.pop((at, row["transaction_index"]), [])
        found.sort(key=lambda log: int(log["logIndex"], 16))
        of_block.receipts.append(_receipt(row, used[at], found))
    for at, _ in logs:
        # A log of a transaction that is not there.
        if at in told:
            told[at].whole = False
    for row in _rows(files.get("blocks", ())):
        if row["block_number"] in told:
            told[row["block_number"]].block = _block(row, told[row["block_number"]].transactions)
    return told


def discard(files: Mapping[str, Sequence[Path]]) -> None:
    for each in files.values():
        for path in each:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _rows(files: Sequence[Path]) -> Iterator[Row]:
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(4096):
            yield from _dicts(batch)


def _dicts(batch: pa.RecordBatch) -> Iterator[Row]:
    names = batch.schema.names
    values = (column.to_pylist() for column in batch.columns)
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _place(row: Row) -> tuple[int, int]:
    return row["block_number"], row["transaction_index"]


def _block(row: Row, transactions: Sequence[Json]) -> Json:
    return {
        "number": hex(row["block_number"]),
        "hash": row["block_hash"],
        "parentHash": row["parent_hash"],
        "timestamp": hex(row["timestamp"]),
        "miner": row["author"],
        "gasUsed": hex(row["gas_used"]),
        "baseFeePerGas": _hex(row["base_fee_per_gas"]),
        "logsBloom": row["logs_bloom"],
        "transactionsRoot": row["transactions_root"],
        "receiptsRoot": row["receipts_root"],
        "stateRoot": row["state_root"],
        "size": hex(row["size"]),
        "extraData": row["extra_data"],
        "transactions": transactions,
    }


def _transaction(row: Row) -> Json:
    return {
        "blockHash": row["block_hash"],
        "transactionIndex": hex(row["transaction_index"]),
        "hash": row["transaction_hash"],
        "from": row["from_address"],
        "to": row["to_address"],
        "value": hex(int(row["value_string"])),
        "nonce": hex(row["nonce"]),
        "input": row["input"],
        "gas": hex(row["gas_limit"]),
        "gasPrice": _hex(row["gas_price"]),
        "maxFeePerGas": _hex(row["max_fee_per_gas"]),
        "maxPriorityFeePerGas": _hex(row["max_priority_fee_per_gas"]),
        "type": _hex(row["transaction_type"]),
    }


def _receipt(row: Row, cumulative: int, logs: list[Json]) -> Json:
    bloom = bloom_of(
        bytes.fromhex(value[2:]) for log in logs for value in (log["address"], *log["topics"])
    )
    success = row["success"]
    return {
        "blockHash": row["block_hash"],
        "transactionIndex": hex(row["transaction_index"]),
        "transactionHash": row["transaction_hash"],
        "type": _hex(row["transaction_type"]),
        "status": None if success is None else hex(success),
        "gasUsed": hex(row["gas_used"] or 0),
        "cumulativeGasUsed": hex(cumulative),
        "effectiveGasPrice": _hex(row["gas_price"]),
        "logsBloom": f"0x{bloom:0512x}",
        "logs": logs,
    }


def _log(row: Row) -> Json:
    return {
        "blockHash": row["block_hash"],
        "transactionHash": row["transaction_hash"],
        "logIndex": hex(row["log_index"]),
        "address": row["address"],
        "topics": [row[topic] for topic in _TOPICS if row[topic] is not None],
        "data": row["data"],
    }


def _hex(value: int | None) -> str | None:
    return None if value is None else hex(value)
