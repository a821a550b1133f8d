"""A chain of 80 blocks that anvil once made, with a fork, told by a server of the standard library.

For machines where anvil cannot be installed: real blocks, whose roots and hashes are right, and one
real reorg. What is asked of it beside that is refused, not made up.
"""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from trace_chain.node.anvil import Anvil
from trace_chain.node.install import NoAnvil

RECORDED = Path(__file__).parent / "bundled.json.gz"
_SAFE, _FINALIZED = 8, 16
_BODY_MAX = 1 << 20
Json = dict[str, Any]


class Node(Protocol):
    """What demo and tests may ask of either chain."""

    chain_id: int
    url: str

    @property
    def head(self) -> int: ...
    def mine(self, count: int = 1) -> int: ...
    def reorg(self, depth: int) -> None: ...
    def close(self) -> None: ...


def start_node() -> Node:
    """anvil; the bundled chain where there is none."""
    try:
        return Anvil()
    except NoAnvil:
        return BundledChain()


class Exhausted(RuntimeError):
    """The recording ends here; anvil goes on for ever."""


class BundledChain:
    """It shows the recorded blocks one after the other, as they are mined."""

    def __init__(self, head: int = 1) -> None:
        recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
        self.chain_id: int = recorded["chain_id"]
        self.fork_base: int = recorded["fork_base"]
        """The last block that both forks have: a reorg goes back to it, and to no other."""
        self._forks: list[list[Json]] = [recorded["blocks"], recorded["fork"]]
        self._fork = 0
        self._head = head
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> BundledChain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def head(self) -> int:
        return self._head

    def mine(self, count: int = 1) -> int:
        with self._lock:
            if self._head + count >= len(self._forks[self._fork]):
                raise Exhausted(f"there are {len(self._forks[self._fork])} recorded blocks")
            self._head += count
            return self._head

    def reorg(self, depth: int) -> None:
        """The other fork, from `fork_base` on."""
        with self._lock:
            if self._fork or self._head - depth != self.fork_base:
                raise Exhausted(f"one reorg is recorded: from {self.fork_base} on, once")
            self._fork = 1

    def answer(self, method: str, params: list[Any]) -> Any:
        """The result of one call. Raises `LookupError` for a method that it does not have."""
        with self._lock:
            shown = self._forks[self._fork][: self._head + 1]
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "net_version":
            return str(self.chain_id)
        if method == "web3_clientVersion":
            return "trace-bundled/1"
        if method == "eth_blockNumber":
            return hex(len(shown) - 1)
        if method in ("eth_getBlockByNumber", "eth_getBlockByHash"):
            found = _find(shown, params[0])
            return found and _block(found, full=bool(params[1]))
        if method == "eth_getBlockReceipts":
            found = _find(shown, params[0])
            return found and found["receipts"]
        if method == "eth_getTransactionReceipt":
            every = (receipt for each in shown for receipt in each["receipts"])
            return next((r for r in every if r["transactionHash"] == params[0]), None)
        if method == "eth_getLogs":
            return _logs(shown, params[0])
        raise LookupError(method)


def _find(shown: list[Json], wanted: str | Json) -> Json | None:
    if isinstance(wanted, dict):
        wanted = wanted.get("blockHash") or wanted.get("blockNumber") or "latest"
    if len(wanted) == 66:
        return next((each for each in shown if each["block"]["hash"] == wanted), None)
    at = _number(shown, wanted)
    return shown[at] if 0 <= at < len(shown) else None


def _number(shown: list[Json], wanted: str) -> int:
    latest = len(shown) - 1
    tags = {
        "latest": latest, "pending": latest, "earliest": 0,
        "safe": max(0, latest - _SAFE), "finalized": max(0, latest - _FINALIZED),
    }  # fmt: skip
    return tags[wanted] if wanted in tags else int(wanted, 16)


def _block(found: Json, *, full: bool) -> Json:
    block: Json = found["block"]
    if full:
        return block
    return {**block, "transactions": [each["hash"] for each in block["transactions"]]}


def _logs(shown: list[Json], wanted: Json) -> list[Json]:
    if "blockHash" in wanted:
        blocks = [each for each in shown if each["block"]["hash"] == wanted["blockHash"]]
    else:
        start = _number(shown, wanted.get("fromBlock", "latest"))
        blocks = shown[start : _number(shown, wanted.get("toBlock", "latest")) + 1]
    addresses = wanted.get("address")
    addresses = [addresses] if isinstance(addresses, str) else addresses
    logs = (log for each in blocks for receipt in each["receipts"] for log in receipt["logs"])
    return [
        log
        for log in logs
        if (not addresses or log["address"] in [each.lower() for each in addresses])
        and _topics_match(log["topics"], wanted.get("topics") or [])
    ]


def _topics_match(topics: list[str], wanted: list[Any]) -> bool:
    for at, each in enumerate(wanted):
        allowed = [each] if isinstance(each, str) else each
        if allowed and (at >= len(topics) or topics[at] not in allowed):
            return False
    return True


def _handler(chain: BundledChain) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if size > _BODY_MAX:
                self.send_error(413)
                return
            asked = json.loads(self.rfile.read(size))
            answered = [_answer(chain, each) for each in asked] if isinstance(asked, list) else None
            data = json.dumps(_answer(chain, asked) if answered is None else answered).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler


def _answer(chain: BundledChain, asked: Json) -> Json:
    envelope = {"jsonrpc": "2.0", "id": asked.get("id")}
    try:
        return {**envelope, "result": chain.answer(asked["method"], asked.get("params") or [])}
    except LookupError as error:
        said = {"code": -32601, "message": f"method not found: {error}"}
        return {**envelope, "error": said}
    except (TypeError, ValueError) as error:
        return {**envelope, "error": {"code": -32602, "message": f"invalid params: {error}"}}
