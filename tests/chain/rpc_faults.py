"""A provider that lies, limits, lags or is silent: a proxy before a real node."""

from __future__ import annotations

import copy
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any
_TAGS = {"latest", "safe", "finalized", "pending"}


@dataclass
class Faults:
    """What is wrong with it; it may be changed while it serves."""

    drop_every: int = 0
    """Of all logs that it tells of, one in so many is left out."""
    drop_blocks: frozenset[int] | None = None
    """Only in these blocks."""
    drop_from: frozenset[str] = frozenset({"eth_getLogs", "eth_getBlockReceipts"})
    """In answers of these methods; a provider whose index is broken still has its receipts."""
    change_blocks: dict[int, Callable[[Json], None]] = field(default_factory=dict)
    """What it changes in a block that it tells of."""
    change_receipts: dict[int, Callable[[Json], None]] = field(default_factory=dict)
    """The same in the receipts of a block."""
    other_node: str | None = None
    """Blocks from `other_from` on come from this node, on another fork."""
    other_from: int = 0
    limit_every: int = 0
    """So many requests are answered, then as many get 429."""
    retry_after: str | None = None
    behind: int = 0
    """How many blocks it is behind."""
    lacks_headers_from: int | None = None
    """One of the machines behind its address is behind: it has no header from there on."""
    lacks_until: int = 0
    """Blocks with their transactions are not there yet in so many requests."""
    silent_every: int = 0
    """One request in so many is answered after `silent_seconds`."""
    silent_seconds: float = 2.0


@dataclass
class FaultyProvider:
    node: str
    faults: Faults
    url: str = ""
    requests: int = 0
    told_429: int = 0
    dropped: int = 0
    keys: set[str] = field(default_factory=set)
    """Paths that were called: the last part is the key."""
    logs_seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: Json) -> Json:
        if isinstance(body, list):
            return [self._one(each) for each in body]
        return self._one(body)

    def _one(self, call: Json) -> Json:
        method, params = call["method"], list(call.get("params") or [])
        found = _ask(self._node_for(method, params), {**call, "params": self._placed(params)})
        if "result" in found:
            found["result"] = self._changed(method, params, found["result"])
        return found

    def _node_for(self, method: str, params: list[Json]) -> str:
        at = _number_of(method, params)
        other = self.faults.other_node
        return other if other and at is not None and at >= self.faults.other_from else self.node

    def _placed(self, params: list[Json]) -> list[Json]:
        """What is latest for it is older."""
        if not self.faults.behind:
            return params
        head = hex(self._head())
        return [head if isinstance(each, str) and each in _TAGS else each for each in params]

    def _head(self) -> int:
        answer = _ask(self.node, {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"})
        return max(0, int(answer["result"], 16) - self.faults.behind)

    def _changed(self, method: str, params: list[Json], result: Json) -> Json:
        faults = self.faults
        if method == "eth_blockNumber" and faults.behind:
            return hex(self._head())
        lacks = faults.lacks_headers_from
        if lacks is not None and params[1:] == [False]:
            at = _number_of(method, params)
            return None if at is not None and at >= lacks else result
        if faults.lacks_until and params[1:] == [True]:
            faults.lacks_until -= 1
            return None
        if faults.behind and (at := _number_of(method, params)) is not None and at > self._head():
            return None
        if method in faults.drop_from and faults.drop_every:
            if method == "eth_getLogs":
                return [log for log in result if not self._drops(log)]
            for receipt in result or ():
                receipt["logs"] = [log for log in receipt["logs"] if not self._drops(log)]
        if method == "eth_getBlockReceipts" and isinstance(result, list):
            change = faults.change_receipts.get(int(params[0], 16))
            if change is not None:
                change(result)
        if method == "eth_getBlockByNumber" and isinstance(result, dict):
            change = faults.change_blocks.get(int(result["number"], 16))
            if change is not None:
                result = copy.deepcopy(result)
                change(result)
        return result

    def _drops(self, log: Json) -> bool:
        only = self.faults.drop_blocks
        if only is not None and int(log["blockNumber"], 16) not in only:
            return False
        with self.lock:
            self.logs_seen += 1
            drops = self.logs_seen % self.faults.drop_every == 0
            self.dropped += drops
        return drops


def _number_of(method: str, params: list[Json]) -> int | None:
    """The last block that a call asks for."""
    if method == "eth_getLogs" and params:
        end = params[0].get("toBlock")
        return int(end, 16) if isinstance(end, str) and end.startswith("0x") else None
    by_number = ("eth_getBlockByNumber", "eth_getBlockReceipts")
    if method in by_number and params and str(params[0]).startswith("0x"):
        return int(params[0], 16)
    return None


def _ask(url: str, body: Json) -> Json:
    request = urllib.request.Request(  # noqa: S310
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


@contextmanager
def faulty(node: str, **faults: Any) -> Iterator[FaultyProvider]:
    provider = FaultyProvider(node, Faults(**faults))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with provider.lock:
                number = provider.requests
                provider.requests += 1
                provider.keys.add(self.path.rpartition("/")[2])
            given = provider.faults
            if given.limit_every and (number // given.limit_every) % 2:
                provider.told_429 += 1
                after = {"Retry-After": given.retry_after} if given.retry_after else {}
                self._answer(429, b"{}", after)
                return
            if given.silent_every and number % given.silent_every == given.silent_every - 1:
                time.sleep(given.silent_seconds)
            try:
                found = provider.answer(json.loads(body))
            except urllib.error.URLError:
                # The node is gone, and the test over.
                self.close_connection = True
                return
            self._answer(200, json.dumps(found).encode(), {})

        def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            try:
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                # The caller has lost its patience.
                self.close_connection = True

        def log_message(self, *_args: Any) -> None:
            """Tests read what was counted, not a log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
