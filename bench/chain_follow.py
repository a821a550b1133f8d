"""`python -m bench.chain_follow`: how fast a chain is followed, beside merely fetching it.

All rows are of one run over the same blocks of anvil: fetching the JSON and throwing it away, in
the same batches over the same connections; the same verified and made into rows; the same written
to Postgres by slices of `block_follower`, claimed, committed and reported.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chain.follow_world import FollowWorld
from tests.postgres_server import PostgresServer
from trace_chain.node.anvil import Anvil
from trace_chain.reader import BlockReader
from trace_chain.rpc import Call, Rpc
from trace_chain.tables import tables_of

BATCH, CONNECTIONS = 20, 4


@dataclass(frozen=True)
class Measured:
    what: str
    blocks: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.blocks / self.seconds


def fetch(url: str, head: int) -> None:
    def read(numbers: range) -> None:
        calls: list[Call] = [("eth_getBlockByNumber", (hex(at), True)) for at in numbers]
        calls += [("eth_getBlockReceipts", (hex(at),)) for at in numbers]
        rpc.batch(calls)

    chunks = (range(at, min(at + BATCH, head + 1)) for at in range(0, head + 1, BATCH))
    with Rpc(url, connections=CONNECTIONS) as rpc:
        for _ in rpc.ahead(read, chunks):
            pass


def verify(url: str, head: int, mode: str) -> None:
    with Rpc(url, connections=CONNECTIONS) as rpc:
        tables_of(list(BlockReader(rpc, verified=mode, batch=BATCH).blocks(0, head)))


def measure(blocks: int, transactions: int, transfers: int) -> list[Measured]:
    found: list[Measured] = []

    def timed(what: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        found.append(Measured(what, head + 1, time.perf_counter() - began))

    server = PostgresServer()
    server.acquire()
    state, data = server.clone(), server.clone("data")
    try:
        with Anvil() as anvil, tempfile.TemporaryDirectory() as folder:
            head = anvil.traffic(blocks, transactions=transactions, transfers=transfers)
            fetch(anvil.url, head)  # once, so that nothing is measured cold
            timed("fetched and thrown away", lambda: fetch(anvil.url, head))
            timed("verified by the bloom, as rows", lambda: verify(anvil.url, head, "bloom"))
            timed("verified by roots, as rows", lambda: verify(anvil.url, head, "receipts"))
            world = FollowWorld(state, data, Path(folder), anvil.url)
            try:
                world.deploy()
                timed("followed into Postgres", world.follow)
            finally:
                world.close()
    finally:
        server.drop(state)
        server.drop(data)
        server.release()
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chain_follow", description=__doc__)
    parser.add_argument("--blocks", type=int, default=2000)
    parser.add_argument("--transactions", type=int, default=5, help="in each block")
    parser.add_argument("--transfers", type=int, default=4, help="logs of each transaction")
    given = parser.parse_args(arguments)
    print(
        f"{given.blocks} blocks of {given.transactions} transactions, {given.transfers} logs each"
    )
    found = measure(given.blocks, given.transactions, given.transfers)
    for each in found:
        share = each.rate / found[0].rate
        print(f"  {each.what:32}{each.rate:10,.0f} blocks/s  {share:5.2f} of fetching")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
