"""The chain of `make demo-chain`: anvil with traffic, or the bundled one where that is missing."""

from __future__ import annotations

from dataclasses import dataclass

from trace_chain.node.anvil import Anvil
from trace_chain.node.bundled import BundledChain
from trace_chain.node.install import NoAnvil


@dataclass(frozen=True)
class Size:
    """How long the chain is at each step of the demo, in blocks."""

    history: int
    """Blocks before the first one that is followed: what there is to backfill."""
    range: int
    followed: int
    """The head when the reorg comes."""
    depth: int
    """Of the reorg: it reaches below the last range that has been compacted."""
    end: int
    """The head at the end."""

    def of_file(self, text: str) -> str:
        """The DAG file with these numbers in the place of its own."""
        for key, own, wanted in (
            ("start_block", LARGE.history, self.history),
            ("chunk_size", LARGE.range, self.range),
            ("range_size", LARGE.range, self.range),
        ):
            text = text.replace(f"{key}: {own}", f"{key}: {wanted}")
        return text


LARGE = Size(history=200, range=50, followed=310, depth=24, end=360)
SMALL = Size(history=30, range=10, followed=72, depth=17, end=78)
"""The recorded chain has 80 blocks and one reorg, whose place it knows itself."""


class DemoChain:
    """With anvil every block has transfers, payments, and now and then one that reverts."""

    def __init__(self) -> None:
        try:
            self._node: Anvil | BundledChain = Anvil(seed=7)
            self.size = LARGE
            self.is_real = True
        except NoAnvil:
            self._node = BundledChain()
            self.size = SMALL
            self.is_real = False
        self.url = self._node.url

    def __enter__(self) -> DemoChain:
        return self

    def __exit__(self, *_: object) -> None:
        self._node.close()

    @property
    def head(self) -> int:
        return self._node.head

    def grow(self, head: int) -> None:
        """Up to that block."""
        while self.head < head:
            at = self.head
            if isinstance(self._node, Anvil):
                self._node.block(transfers=2 + at % 5, payments=at % 3, reverts=int(at % 17 == 0))
            else:
                self._node.mine()

    def reorg(self) -> int:
        """The last blocks become others; answers how many."""
        if isinstance(self._node, Anvil):
            depth = self.size.depth
            self._node.reorg(depth, {at: 1 + at % 4 for at in range(depth)})
        else:
            depth = self._node.head - self._node.fork_base
            self._node.reorg(depth)
        return depth
