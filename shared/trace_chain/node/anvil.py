"""anvil on a free port of this machine: blocks are mined when somebody asks for them.

with Anvil() as node:
    node.block(transfers=3)      # one block with that many logs
    node.mine(100)               # as many empty ones
    node.reorg(5)                # the last 5 become others
    follow(node.url)
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import subprocess
import tempfile
import time
from typing import Any

from trace_chain.node.install import anvil_program
from trace_chain.node.traffic import TOKEN_CODE, transfers_call
from trace_chain.rpc import Rpc

CHAIN_ID = 31337
GENESIS_TIME = 1_700_000_000
_LISTENS = re.compile(r"Listening on 127\.0\.0\.1:(\d+)")
_STATES = 300
"""How many blocks a reorg can go back, at most."""
_GAS_LIMIT = 10_000_000_000
_GAS_PER_LOG = 2500
_FEE = hex(100 * 10**9)


class Anvil:
    """A chain that begins with block 0 and has one contract from block 1 on."""

    def __init__(self, *, chain_id: int = CHAIN_ID, seed: int = 1, port: int = 0) -> None:
        self.chain_id = chain_id
        self._random = random.Random(seed)  # noqa: S311
        self._seeds = itertools.count(1)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        self._home = tempfile.TemporaryDirectory(prefix="trace-anvil-")
        self._process = subprocess.Popen(  # noqa: S603
            [
                anvil_program(), "--host", "127.0.0.1", "--port", str(port), "--no-mining",
                "--chain-id", str(chain_id), "--timestamp", str(GENESIS_TIME),
                "--gas-limit", str(_GAS_LIMIT), "--slots-in-an-epoch", "8",
                "--order", "fifo", "--cache-path", self._home.name,
                # States in memory alone: those that it reads back from disk have lost their code.
                "--prune-history", str(_STATES),
            ],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env={"HOME": self._home.name},
        )  # fmt: skip
        try:
            self.port = self._wait_for_port()
            self.url = f"http://127.0.0.1:{self.port}"
            self.rpc = Rpc(self.url, timeout=60, connections=1)
            self.accounts: list[str] = self.rpc.call("eth_accounts")
            self.token = self._make_token()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Anvil:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if hasattr(self, "rpc"):
            self.rpc.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        self._home.cleanup()

    @property
    def head(self) -> int:
        return int(self.rpc.call("eth_blockNumber"), 16)

    def mine(self, count: int = 1) -> int:
        """So many blocks, the first with all that was sent, the others empty; the new head."""
        self.rpc.call("anvil_mine", hex(count))
        return self.head

    def block(self, *, transfers: int = 1, payments: int = 0, reverts: int = 0) -> int:
        """One block with transactions; its number."""
        if transfers:
            self.send(self.transfers(transfers))
        for _ in range(payments):
            self.send(self.payment())
        for _ in range(reverts):
            self.send(self.reverting())
        return self.mine()

    def traffic(self, blocks: int, *, transactions: int = 2, transfers: int = 5) -> int:
        """So many blocks with so many transactions of so many logs each; the new head."""
        for _ in range(blocks):
            for _ in range(transactions):
                self.send(self.transfers(transfers))
            self.mine()
        return self.head

    def reorg(self, depth: int, transactions: dict[int, int] | None = None) -> None:
        """The last `depth` blocks become others: empty ones, but for the transactions given.

        `transactions` is how many logs to make in which of the new blocks, counted from 0.
        """
        wanted = transactions or {}
        pairs = [[self.transfers(logs), at] for at, logs in sorted(wanted.items())]
        self.rpc.call("anvil_reorg", depth, pairs)

    def random_reorg(self, depth: int) -> None:
        """As `reorg`, with transactions in about half of the blocks."""
        chosen = {
            at: self._random.randint(0, 6) for at in range(depth) if self._random.random() < 0.5
        }
        self.reorg(depth, chosen)

    def rollback(self, depth: int) -> int:
        """The last `depth` blocks are gone, as on a fork that is shorter; the new head."""
        self.rpc.call("anvil_rollback", depth)
        return self.head

    def shorter_reorg(self, depth: int, instead: int) -> int:
        """`instead` blocks take the place of the last `depth`; the new head."""
        self.rpc.call("anvil_rollback", depth)
        for _ in range(instead):
            self.block(transfers=self._random.randint(1, 4))
        return self.head

    def send(self, transaction: dict[str, Any]) -> str:
        """Into the next block; its hash."""
        return str(self.rpc.call("eth_sendTransaction", transaction))

    def transfers(self, count: int) -> dict[str, Any]:
        """A transaction that leaves so many Transfer logs, with values of all sizes."""
        seed = next(self._seeds) << self._random.randint(0, 240)
        return self._transaction(
            to=self.token, data=transfers_call(count, seed), gas=60_000 + _GAS_PER_LOG * count
        )

    def payment(self) -> dict[str, Any]:
        to = f"0x{self._random.getrandbits(160):040x}"
        return self._transaction(to=to, value=self._random.randint(1, 10**15), gas=21_000)

    def reverting(self) -> dict[str, Any]:
        """Runs out of gas."""
        return self._transaction(to=self.token, data=transfers_call(100, 1), gas=40_000)

    def _transaction(self, *, gas: int, value: int = 0, **fields: Any) -> dict[str, Any]:
        sender = self._random.choice(self.accounts)
        fees = {"maxFeePerGas": _FEE, "maxPriorityFeePerGas": hex(self._random.randint(1, 10**9))}
        return {"from": sender, "gas": hex(gas), "value": hex(value), **fees, **fields}

    def _make_token(self) -> str:
        made = self.send(self._transaction(data=TOKEN_CODE, gas=500_000))
        self.mine()
        return str(self.rpc.call("eth_getTransactionReceipt", made)["contractAddress"])

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            said = self._said()
            found = _LISTENS.search(said)
            if found:
                return int(found[1])
            if self._process.poll() is not None:
                raise RuntimeError(f"anvil ended as it began: {said[-500:]}")
            time.sleep(0.02)
        raise RuntimeError(f"anvil does not listen: {self._said()[-500:]}")

    def _said(self) -> str:
        with contextlib.suppress(ValueError):
            self._log.seek(0)
            return self._log.read().decode(errors="replace")
        return ""
