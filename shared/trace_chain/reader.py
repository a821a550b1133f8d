"""Verified blocks from one node, in order and ahead of whoever takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trace_chain.columns import VERIFIED_RECEIPTS
from trace_chain.completeness import Block, Header, read_header, verify
from trace_chain.errors import (
    AnswerTooLarge,
    ChainError,
    ForkMoved,
    Lagging,
    Malformed,
    MethodMissing,
    RateLimited,
    Untrue,
)
from trace_chain.hexes import number
from trace_chain.rpc import Call, Rpc

_AGAIN = 2
"""How often a block is read again that did not fit together."""


@dataclass(frozen=True)
class Heads:
    """How far the chain is, as a node says."""

    latest: Header
    safe: int | None
    finalized: int | None


class BlockReader:
    def __init__(self, rpc: Rpc, *, verified: str = VERIFIED_RECEIPTS, batch: int = 20) -> None:
        self._rpc = rpc
        self._verified = verified
        self._batch = batch
        self._receipts_of_blocks = True
        """Not known to be missing; otherwise they are asked for one by one."""

    def chain_id(self) -> int:
        answer = self._rpc.call("eth_chainId")
        try:
            return number(answer)
        except (TypeError, ValueError) as error:
            raise Malformed(f"eth_chainId: {answer!r:.80}") from error

    def heads(self) -> Heads:
        tags = ("latest", "safe", "finalized")
        answers = self._rpc.try_batch([("eth_getBlockByNumber", (tag, False)) for tag in tags])
        latest, *others = answers
        if isinstance(latest, ChainError):
            raise latest
        if latest is None:
            raise Lagging("the node has no latest block")
        # Chains that know no finality answer with an error, or with nothing; to a provider that has
        # had enough for now it is another matter.
        limited = next((each for each in others if isinstance(each, RateLimited)), None)
        if limited is not None:
            raise limited
        safe, finalized = (
            read_header(each).number if isinstance(each, dict) else None for each in others
        )
        return Heads(read_header(latest), safe, finalized)

    def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """Nothing for what the node does not have."""
        found: list[Header | None] = []
        for first in range(0, len(numbers), self._batch):
            wanted = numbers[first : first + self._batch]
            calls = [("eth_getBlockByNumber", (hex(at), False)) for at in wanted]
            for at, answer in zip(wanted, self._rpc.batch(calls), strict=True):
                header = None if answer is None else read_header(answer)
                if header is not None and header.number != at:
                    raise Malformed(f"block {at} was asked for, and {header.number} came")
                found.append(header)
        return found

    def blocks(self, start: int, end: int) -> Iterator[Block]:
        """Those of the range, inclusive, one by one; raises at the first that is not to be had.

        Each is verified by itself. Whether one is the child of another is for the caller to check:
        the chain may have been reorganised between them.
        """
        chunks = (
            range(first, min(first + self._batch, end + 1))
            for first in range(start, end + 1, self._batch)
        )
        for blocks, error in self._rpc.ahead(self._chunk, chunks):
            yield from blocks
            if error is not None:
                raise error

    def _chunk(self, numbers: range) -> tuple[list[Block], ChainError | None]:
        """As far as it goes, and what ended it."""
        found: list[Block] = []
        try:
            for at, (block, receipts) in zip(numbers, self._read(numbers), strict=True):
                found.append(self._verified_block(at, block, receipts))
        except ChainError as error:
            return found, error
        return found, None

    def _verified_block(self, at: int, block: Any, receipts: Any) -> Block:
        """Read again if it does not fit together: it may have been replaced meanwhile."""
        for _ in range(_AGAIN):
            try:
                return self._verify(at, block, receipts)
            except (ForkMoved, Untrue):
                ((block, receipts),) = self._read(range(at, at + 1))
        return self._verify(at, block, receipts)

    def _verify(self, at: int, block: Any, receipts: Any) -> Block:
        if block is None or receipts is None:
            raise Lagging(f"the node does not have block {at} or its receipts")
        if not isinstance(block, dict) or not isinstance(receipts, list):
            raise Malformed(f"block {at} has another form")
        if any(each is None for each in receipts):
            raise Lagging(f"the node does not have all receipts of block {at}")
        found = verify(block, receipts, self._verified)
        if found.number != at:
            raise Malformed(f"block {at} was asked for, and {found.number} came")
        return found

    def _read(self, numbers: range) -> list[tuple[Any, Any]]:
        """Block and receipts of each, in one batch, or in smaller ones where that is too much."""
        try:
            return self._read_at_once(numbers)
        except AnswerTooLarge:
            if len(numbers) == 1:
                raise
            half = len(numbers) // 2
            return [*self._read(numbers[:half]), *self._read(numbers[half:])]

    def _read_at_once(self, numbers: range) -> list[tuple[Any, Any]]:
        calls: list[Call] = [("eth_getBlockByNumber", (hex(at), True)) for at in numbers]
        if not self._receipts_of_blocks:
            blocks = self._rpc.batch(calls)
            return list(zip(blocks, self._receipts_one_by_one(blocks), strict=True))
        calls += [("eth_getBlockReceipts", (hex(at),)) for at in numbers]
        answers = self._rpc.try_batch(calls)
        if any(isinstance(each, MethodMissing) for each in answers[len(numbers) :]):
            self._receipts_of_blocks = False
            return self._read_at_once(numbers)
        for each in answers:
            if isinstance(each, ChainError):
                raise each
        return list(zip(answers[: len(numbers)], answers[len(numbers) :], strict=True))

    def _receipts_one_by_one(self, blocks: Sequence[Any]) -> list[Any]:
        try:
            hashes = [[each["hash"] for each in b["transactions"]] if b else [] for b in blocks]
        except (KeyError, TypeError) as error:
            raise Malformed(f"a block without transactions: {error}") from error
        receipts = self._rpc.batch(
            [("eth_getTransactionReceipt", (each,)) for some in hashes for each in some]
        )
        rest = iter(receipts)
        return [
            [next(rest) for _ in some] if b else None
            for b, some in zip(blocks, hashes, strict=True)
        ]
