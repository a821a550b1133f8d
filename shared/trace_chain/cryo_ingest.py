"""Backfills a range with Cryo: read, checked block by block, and only then committed.

| `verify` | blocks come from | what is compared |
|---|---|---|
| `receipts` | the node itself, in batches | header and its hash, transactions and their root; receipts made of Cryo's transactions and logs, and their root: exact |
| `bloom` | Cryo | Cryo's logs with the bloom of the header, gas, counts, places: cheap |

A block whose parts do not fit together is doubtful: it is read again from the node, with its
receipts, and its verdict is then `receipts`. If that does not fit either, the range is refused and
nothing of it is written.

Where there is no Cryo, or it fails, the follower's reader takes its place: the same rows, checked in
the same way.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from trace_chain.backfill_configs import CryoIngestConfig
from trace_chain.columns import (
    BLOCKS,
    CURSORS,
    LOGS,
    TRANSACTIONS,
    VERIFIED_BLOOM,
    VERIFIED_RECEIPTS,
)
from trace_chain.completeness import Block, check_chained, verify
from trace_chain.cryo_files import Told, chunks, cryo_is_here, discard, freeze, read_told
from trace_chain.errors import ChainError, CryoFailed, ForkMoved, Lagging, WrongChain
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import table
from trace_core.operators.api import OperatorFailed, Result, Rows, TaskContext
from trace_core.storage.rows import arrow_schema

_COLUMNS = {"blocks": BLOCKS, "transactions": TRANSACTIONS, "logs": LOGS}
_BATCH = 50


class CryoIngest:
    def run(self, task: TaskContext[CryoIngestConfig]) -> Result:
        config = task.config
        bounds = task.trigger.scope.range if task.trigger else None
        if task.trigger is None or bounds is None:
            raise OperatorFailed("needs an event with a range of blocks")
        if len(set(config.datasets)) != len(config.datasets):
            raise OperatorFailed("`datasets` names one twice")
        if len(config.datasets) != len(task.outputs):
            raise OperatorFailed(
                f"{len(config.datasets)} datasets and {len(task.outputs)} outputs: one for each"
            )
        url = task.env.get("RPC_URL")
        if not url:
            raise OperatorFailed(
                "no RPC_URL: give the job a worker pool whose slots name an RPC_UPSTREAM"
            )
        with Rpc(url) as rpc:
            backfill = _Backfill(task, rpc, url)
            written = backfill.run(*bounds)
        return Result(
            outputs=[
                Rows(index, task.trigger.scope, written[dataset], CURSORS[dataset], dataset)
                for index, dataset in enumerate(config.datasets)
            ]
        )


class _Backfill:
    def __init__(self, task: TaskContext[CryoIngestConfig], rpc: Rpc, url: str) -> None:
        self._task, self._config, self._rpc, self._url = task, task.config, rpc, url
        self._reader = BlockReader(rpc)
        self._by_cryo = cryo_is_here()
        self._repaired: list[int] = []

    def run(self, start: int, end: int) -> Mapping[str, pa.Table]:
        chain_id = self._reader.chain_id()
        if chain_id != self._config.chain_id:
            raise WrongChain(f"the provider is on chain {chain_id}, not {self._config.chain_id}")
        head = self._reader.heads().latest.number
        if head < end:
            raise Lagging(f"the provider is at block {head}, and the range ends at {end}")
        files = _Files(self._task.scratch, self._config.datasets)
        last: Block | None = None
        for numbers in chunks(start, end, self._config.chunk_blocks):
            if self._task.canceled():
                raise OperatorFailed("canceled", retryable=True)
            blocks = self._chunk(numbers)
            check_chained([*([last] if last else []), *blocks])
            files.add(blocks)
            last = blocks[-1]
        # All are chained, so if the last is still on the chain, all are.
        (now,) = self._reader.headers([end])
        if last is None or now is None or now.hash != last.hash:
            raise ForkMoved(f"the chain was reorganised while {start} to {end} was read")
        self._task.log.info(
            "blocks %s to %s are whole, read %s; %s were doubtful and read again", start, end,
            "with Cryo" if self._by_cryo else "without Cryo, which is not installed here",
            len(self._repaired),
        )  # fmt: skip
        return files.tables()

    def _chunk(self, numbers: range) -> list[Block]:
        if self._by_cryo:
            try:
                return self._with_cryo(numbers)
            except CryoFailed as error:
                # One word of a provider that it does not understand ends it. The reader can say
                # which, or get over it.
                self._task.log.warning(
                    "blocks %s to %s are read without Cryo: %s",
                    numbers[0], numbers[-1], error.message,
                )  # fmt: skip
                self._repaired += numbers
        reader = BlockReader(self._rpc, verified=self._config.verify, batch=_BATCH)
        return list(reader.blocks(numbers[0], numbers[-1]))

    def _with_cryo(self, numbers: range) -> list[Block]:
        folder = self._task.scratch / f"cryo-{numbers[0]}"
        wanted = ["transactions", "logs"]
        if self._config.verify == VERIFIED_BLOOM:
            wanted.append("blocks")
        files: dict[str, Sequence[Path]] = {
            dataset: freeze(
                dataset, self._url, numbers[0], numbers[-1], folder / dataset,
                requests=self._config.requests, chunk=len(numbers),
            )
            for dataset in wanted
        }  # fmt: skip
        told = read_told(numbers, files)
        discard(files)
        if self._config.verify == VERIFIED_RECEIPTS:
            for at, block in zip(numbers, self._blocks(numbers), strict=True):
                told[at].block = block
        return [self._verified(at, told.pop(at)) for at in numbers]

    def _blocks(self, numbers: range) -> Iterator[Any]:
        def some(batch: range) -> list[Any]:
            calls = [("eth_getBlockByNumber", (hex(at), True)) for at in batch]
            return self._rpc.batch(calls)

        for found in self._rpc.ahead(some, chunks(numbers[0], numbers[-1], _BATCH)):
            yield from found

    def _verified(self, at: int, told: Told) -> Block:
        if isinstance(told.block, dict) and told.whole:
            try:
                block = verify(told.block, told.receipts, self._config.verify)
                if block.number == at:
                    return block
            except ChainError as doubt:
                self._task.log.warning("block %s is doubtful: %s", at, doubt.message)
        self._repaired.append(at)
        # Refused by whatever this raises, unless it is whole now.
        (block,) = self._reader.blocks(at, at)
        return block


class _Files:
    """Rows on their way to a result: in files, so that a long range takes no more memory."""

    def __init__(self, folder: Path, datasets: Sequence[str]) -> None:
        self._paths = {name: folder / f"{name}.arrows" for name in datasets}
        self._writers = {
            name: pa.ipc.new_file(str(path), arrow_schema(_COLUMNS[name]))
            for name, path in self._paths.items()
        }

    def add(self, blocks: Sequence[Block]) -> None:
        rows = {
            "blocks": [each.block for each in blocks],
            "transactions": [row for each in blocks for row in each.transactions],
            "logs": [row for each in blocks for row in each.logs],
        }
        for name, writer in self._writers.items():
            if rows[name]:
                writer.write_table(table(_COLUMNS[name], rows[name]))

    def tables(self) -> dict[str, pa.Table]:
        """Mapped, not read."""
        for writer in self._writers.values():
            writer.close()
        return {
            name: pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            for name, path in self._paths.items()
        }
