"""`block_follower`: blocks, transactions and logs as a node tells them, and told otherwise after a
reorg.

One slice makes one commit: new blocks, or the rewrite of a range that a reorg replaced, or a range
that somebody asked to be written again. Where it stands is in `trail.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from trace_chain.columns import CURSORS, HEADS
from trace_chain.completeness import Block
from trace_chain.configs import BlockFollowerConfig
from trace_chain.errors import (
    ChainError,
    ForkMoved,
    Lagging,
    ProviderFault,
    ReorgTooDeep,
    WrongChain,
)
from trace_chain.reader import BlockReader, Heads
from trace_chain.rpc import Rpc
from trace_chain.tables import table, tables_of
from trace_chain.trail import REPAIRS_MAX, Range, Trail
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import OperatorFailed, Result, Rows, TaskContext

STATE = "follow"
RPC_URL = "RPC_URL"
_HEADS_OUTPUT = 3
_TRIES = 4
"""How often one slice begins anew because the chain moved under it."""
_SEARCH = 32
_REPAIRS_TRIED = 3

Context = TaskContext[BlockFollowerConfig]


class BlockFollower:
    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep

    def run(self, task: Context) -> Result:
        config, url = task.config, task.env.get(RPC_URL)
        if not url:
            raise OperatorFailed(
                f"the slot gives no {RPC_URL}: name an upstream in `env` of a worker pool's slot",
            )
        with Rpc(url, connections=config.connections) as rpc:
            reader = BlockReader(rpc, verified=config.verify, batch=config.batch_blocks)
            return _Slice(task, reader, self._monotonic, self._sleep).run()

    @staticmethod
    def check_request(request: Mapping[str, Any]) -> None:
        _asked_range(request)


class _Slice:
    def __init__(
        self,
        task: Context,
        reader: BlockReader,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._task = task
        self._config = task.config
        self._reader = reader
        self._monotonic = monotonic
        self._sleep = sleep
        self._begun = monotonic()
        state = task.state.get(STATE)
        self._before = Trail.read(
            None if state is None else state.value, task.config.chain_id, task.config.start_block
        )
        self._trail, self._taken = self._with_requests(self._before)

    def run(self) -> Result:
        chain_id = self._reader.chain_id()
        if chain_id != self._config.chain_id:
            raise WrongChain(
                f"the node is of chain {chain_id}, and the job follows {self._config.chain_id}"
            )
        moved = 0
        while True:
            try:
                result = self._look()
            except ForkMoved:
                moved += 1
                if moved == _TRIES:
                    raise
                continue
            except Lagging:
                # Often for a moment only: behind one address are machines of different heights.
                if self._waited() or self._task.canceled():
                    raise
                self._sleep(self._config.poll_seconds)
                continue
            if result is not None:
                return result
            if self._waited() or self._taken or self._task.canceled():
                return self._idle()
            self._sleep(self._config.poll_seconds)

    def _look(self) -> Result | None:
        """One look at the node; nothing if there is nothing to do."""
        heads = self._reader.heads()
        trail = self._trail
        ancestor = self._ancestor(heads)
        target = heads.latest.number - self._config.confirmations
        if ancestor is not None and ancestor + 1 < trail.next:
            return self._reorg(heads, ancestor + 1, target)
        behind = target >= trail.next
        if trail.repairs and not (behind and trail.repaired_last):
            repaired = self._repair(heads)
            if repaired is not None:
                return repaired
        return self._follow(heads, target) if behind else None

    def _ancestor(self, heads: Heads) -> int | None:
        """The last block that we wrote and no other stands for; nothing before the first one."""
        trail, head = self._trail, heads.latest
        if trail.last is None:
            return None
        if head.number <= trail.last and trail.hash_of(head.number) == head.hash:
            # It has what we wrote, or less, and nothing else: it is behind.
            return trail.last
        if head.number < trail.first:
            raise Lagging(
                f"the node is at block {head.number}, and block {trail.last} is written already"
            )
        replaced, top = False, min(trail.last, head.number)
        while top >= trail.first:
            numbers = range(max(trail.first, top - _SEARCH + 1), top + 1)
            found = dict(zip(numbers, self._hashes(numbers), strict=True))
            common = trail.common(found)
            replaced = replaced or trail.differs(found, after=common)
            if common is not None:
                # Behind one address may be machines of which some are behind: a block that one of
                # them lacks is not replaced by another.
                return common if replaced else trail.last
            top = numbers[0] - 1
        if not replaced:
            raise Lagging(
                f"the node tells of block {head.number}, and has none of the blocks {trail.first} "
                f"to {trail.last}"
            )
        if trail.first <= self._config.start_block:
            return self._config.start_block - 1
        raise ReorgTooDeep(
            f"the node has none of the {len(trail.hashes)} blocks {trail.first} to {trail.last},"
            " the last that were written: a reorg deeper than `max_depth`, or another chain of the"
            " same id. Compare the node with others; to write all of it again, deploy the job with"
            " another `start_block` or a new operator version"
        )

    def _hashes(self, numbers: Sequence[int]) -> list[str | None]:
        found = self._reader.headers(numbers)
        return [None if each is None else each.hash for each in found]

    def _follow(self, heads: Heads, target: int) -> Result:
        """New blocks, as many as one commit holds; those before an error, if there are any."""
        start = self._trail.next
        end = min(target, start + self._config.max_blocks - 1)
        blocks: list[Block] = []
        try:
            self._take(blocks, start, end)
        except ChainError as error:
            if not blocks:
                raise
            # The next slice begins with it, and says the same if it stays.
            self._task.log.warning("after block %s: %s", blocks[-1].number, error)
        return self._commit(heads, blocks, start, blocks[-1].number)

    def _reorg(self, heads: Heads, start: int, target: int) -> Result:
        """One commit from the first replaced block on, which has the whole replacement.

        Nothing is taken away before what comes in its place has been read.
        """
        last = self._trail.next - 1
        end = min(target, last)
        blocks = list(self._chained(start, end))
        self._task.log.info(
            "reorg: blocks %s to %s are replaced by %s to %s", start, last, start, end
        )
        return self._commit(heads, blocks, start, last)

    def _repair(self, heads: Heads) -> Result | None:
        """The first range that can be had of those that were asked for, as the node has it now."""
        for place in range(min(len(self._trail.repairs), _REPAIRS_TRIED)):
            try:
                return self._write_again(heads, place)
            except (ProviderFault, ForkMoved) as error:
                # New blocks do not wait for old ones; it is tried again in every slice. If it was a
                # reorg, they or the next look find it.
                self._task.log.warning("repair %s: %s", self._trail.repairs[place], error)
        return None

    def _write_again(self, heads: Heads, place: int) -> Result:
        """In several commits, if it is long."""
        start, last = self._trail.repairs[place]
        blocks: list[Block] = []
        self._take(blocks, start, min(last, start + self._config.max_blocks - 1))
        self._check_same(blocks)
        end = blocks[-1].number
        self._task.log.info("blocks %s to %s are written again", start, end)
        trail = self._trail.repaired(place, end)
        return self._result(blocks, Scope.of_range(start, end), trail, heads)

    def _take(self, blocks: list[Block], start: int, end: int) -> None:
        """At least one, unless it raises, and as many as one commit may have."""
        rows = 0
        for block in self._chained(start, end):
            blocks.append(block)
            rows += block.row_count
            late = self._monotonic() - self._begun >= self._config.slice_seconds
            if rows >= self._config.max_rows or late or self._task.canceled():
                return

    def _chained(self, start: int, end: int) -> Iterator[Block]:
        """Blocks of one fork, the first being the child of the one that we wrote before it."""
        parent = self._trail.hash_of(start - 1)
        for block in self._reader.blocks(start, end):
            if parent is not None and block.parent_hash != parent:
                raise ForkMoved(f"block {block.number} is of another fork than its parent")
            parent = block.hash
            yield block

    def _check_same(self, blocks: Sequence[Block]) -> None:
        """What is written again must not begin a reorg: that is done first, and all of it."""
        for block in blocks:
            if self._trail.hash_of(block.number) not in (None, block.hash):
                raise ForkMoved(f"block {block.number} was replaced")
        after = blocks[-1].number + 1
        known = self._trail.hash_of(after)
        if known is None:
            return
        (child,) = self._reader.headers([after])
        if child is None or (child.hash, child.parent_hash) != (known, blocks[-1].hash):
            raise ForkMoved(f"block {after} was replaced")

    def _commit(self, heads: Heads, blocks: Sequence[Block], start: int, last: int) -> Result:
        end = max(last, blocks[-1].number if blocks else last)
        hashes = [each.hash for each in blocks]
        trail = self._trail.written(start, hashes, self._config.max_depth)
        return self._result(blocks, Scope.of_range(start, end), self._as_long(trail), heads)

    def _as_long(self, trail: Trail) -> Trail:
        """A shorter fork leaves fewer hashes, and the next reorg may be as deep as any: those of
        older blocks, which both forks have, take the place of what is gone."""
        lacks = min(
            self._config.max_depth - len(trail.hashes), trail.first - self._config.start_block
        )
        if lacks <= 0 or not trail.hashes:
            return trail
        numbers = range(trail.first - lacks, trail.first + 1)
        return trail.lengthened(self._reader.headers(numbers))

    def _result(self, blocks: Sequence[Block], scope: Scope, trail: Trail, heads: Heads) -> Result:
        trail = replace(trail, heads=_heads_fields(heads))
        outputs = [
            Rows(at, scope, rows, cursor_column=CURSORS[name], name=name)
            for at, (name, rows) in enumerate(zip(CURSORS, tables_of(blocks), strict=True))
        ]
        if any(each.output_index == _HEADS_OUTPUT for each in self._task.outputs):
            row = _heads_row(self._task, heads, trail)
            outputs.append(Rows(_HEADS_OUTPUT, Scope(partition_key="head"), table(HEADS, [row])))
        return Result(outputs=outputs, state={STATE: trail.value()}, requests_taken=self._taken)

    def _idle(self) -> Result:
        state = {} if self._trail == self._before else {STATE: self._trail.value()}
        rest = self._config.poll_seconds
        if self._config.wait_seconds and not self._trail.repairs:
            # It has waited already; the next slice goes on with that.
            rest = 0.0
        return Result(state=state, requests_taken=self._taken, resume_after=timedelta(seconds=rest))

    def _waited(self) -> bool:
        left = self._config.wait_seconds - (self._monotonic() - self._begun)
        return left < self._config.poll_seconds

    def _with_requests(self, trail: Trail) -> tuple[Trail, list[int]]:
        taken, ranges = [], []
        for each in self._task.requests[: max(0, REPAIRS_MAX - len(trail.repairs))]:
            start, end = _asked_range(each.request)
            start, end = max(start, self._config.start_block), min(end, trail.next - 1)
            if start <= end:
                ranges.append((start, end))
            taken.append(each.number)
        return trail.asked(ranges), taken


def _asked_range(request: Mapping[str, Any]) -> Range:
    """Of `{"repair": {"start": …, "end": …}}`, inclusive."""
    asked = request.get("repair")
    if set(request) != {"repair"} or not isinstance(asked, Mapping):
        raise Invalid('A follower takes {"repair": {"start": …, "end": …}}.', field="request")
    start, end = asked.get("start"), asked.get("end")
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in (start, end))
    if not whole or not 0 <= start <= end <= 2**62 or set(asked) - {"start", "end", "reason"}:  # type: ignore[operator]
        raise Invalid("A repair has a start and an end, whole numbers of blocks.", field="repair")
    return start, end  # type: ignore[return-value]


def _heads_fields(heads: Heads) -> dict[str, Any]:
    return {
        "latest": heads.latest.number,
        "latest_hash": heads.latest.hash,
        "safe": heads.safe,
        "finalized": heads.finalized,
    }


def _heads_row(task: Context, heads: Heads, trail: Trail) -> tuple[Any, ...]:
    return (
        task.config.chain_id,
        heads.latest.number,
        heads.latest.hash,
        heads.latest.timestamp,
        heads.safe,
        heads.finalized,
        trail.last,
        task.now,
    )
