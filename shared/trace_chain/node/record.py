"""Records the bundled chain from anvil: `python -m trace_chain.node.record`."""

from __future__ import annotations

import gzip
import json
from typing import Any

from trace_chain.node.anvil import CHAIN_ID, Anvil
from trace_chain.node.bundled import RECORDED

BLOCKS, FORK_BASE = 80, 55


def record() -> None:
    with Anvil(seed=7) as node:
        while node.head < BLOCKS - 1:
            at = node.head
            node.block(transfers=at % 5, payments=at % 3, reverts=at % 7 == 0)
        blocks = _blocks(node, 0)
        node.rollback(node.head - FORK_BASE)
        while node.head < BLOCKS - 1:
            at = node.head
            node.block(transfers=(at + 2) % 4, payments=at % 2)
        fork = [*blocks[: FORK_BASE + 1], *_blocks(node, FORK_BASE + 1)]
    recorded = {"chain_id": CHAIN_ID, "fork_base": FORK_BASE, "blocks": blocks, "fork": fork}
    RECORDED.write_bytes(gzip.compress(json.dumps(recorded).encode(), mtime=0))


def _blocks(node: Anvil, start: int) -> list[dict[str, Any]]:
    found = []
    for at in range(start, node.head + 1):
        block, receipts = node.rpc.batch(
            [("eth_getBlockByNumber", (hex(at), True)), ("eth_getBlockReceipts", (hex(at),))]
        )
        found.append({"block": block, "receipts": receipts})
    return found


if __name__ == "__main__":
    record()
