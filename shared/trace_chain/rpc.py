"""JSON-RPC to one node: batches over a few connections that stay open, and typed errors.

It tries nothing twice but a request that a closed connection never took: patience is the gateway's,
and that of whoever runs the task.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from trace_chain.errors import (
    AnswerTooLarge,
    Lagging,
    Malformed,
    MethodMissing,
    NodeAway,
    RateLimited,
    RpcFailed,
)

Call = tuple[str, Sequence[Any]]
Asked = TypeVar("Asked")
Got = TypeVar("Got")

PATIENCE = 120.0
"""Seconds. The gateway tries for one minute, and waits as long as a provider asks: who gave up
before it would call a provider away that has only limited us."""
_METHOD_MISSING = -32601
_LIMITED = (-32005, 429)
_SAYS_LIMITED = ("rate limit", "too many requests", "request limit", "capacity exceeded")
_SAYS_BEHIND = ("header not found", "unknown block", "block not found", "not yet available")
_CHUNK = 1 << 20
_SHOWN = 200


class _ClosedIdle(Exception):
    """A connection that had answered before took no further request."""


@dataclass(eq=False)
class _Link:
    http: http.client.HTTPConnection
    answered: bool = False


class Rpc:
    """One node behind one URL. Threads may share it: each has a connection of its own."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = PATIENCE,
        connections: int = 4,
        answer_max: int = 128 * 1024 * 1024,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            # Not said: the URL, which may hold a token.
            raise NodeAway("the RPC URL is not of the form http://host:port/path")
        self._kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._timeout = timeout
        self._answer_max = answer_max
        self._connections = connections
        self._own = threading.local()
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Rpc:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            for link in self._links:
                link.http.close()
            self._links.clear()

    def call(self, method: str, *params: Any) -> Any:
        return self.batch([(method, params)])[0]

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """The results in the order of the calls; raises the first error among them."""
        found = []
        for answer in self.try_batch(calls):
            if isinstance(answer, RpcFailed | RateLimited | Lagging):
                raise answer
            found.append(answer)
        return found

    def try_batch(self, calls: Sequence[Call]) -> list[Any]:
        """As `batch`, with the error of a call in the place of its result."""
        if not calls:
            return []
        asked = [
            {"jsonrpc": "2.0", "id": at, "method": method, "params": list(params)}
            for at, (method, params) in enumerate(calls)
        ]
        answered = self._post(asked[0] if len(asked) == 1 else asked)
        if isinstance(answered, dict):
            if len(asked) > 1:
                # One error for the whole batch.
                error = _result(answered, "batch")
                raise error if isinstance(error, Exception) else _malformed("a batch", answered)
            answered = [answered]
        if not isinstance(answered, list) or len(answered) != len(asked):
            raise _malformed("a batch", answered)
        by_id = {
            each["id"]: each
            for each in answered
            if isinstance(each, dict) and type(each.get("id")) is int
        }
        if set(by_id) != set(range(len(asked))):
            raise _malformed("the ids of a batch", list(by_id))
        return [_result(by_id[at], calls[at][0]) for at in range(len(asked))]

    def ahead(self, work: Callable[[Asked], Got], each: Iterable[Asked]) -> Iterator[Got]:
        """`work` on each, on as many threads as there are connections, in order.

        No more is begun than the reader can take: two for each connection wait at most.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._connections, "trace-rpc")
        threads, waiting = self._threads, deque[Future[Got]]()
        todo = iter(each)
        try:
            while True:
                while len(waiting) < 2 * self._connections:
                    try:
                        item = next(todo)
                    except StopIteration:
                        break
                    waiting.append(threads.submit(work, item))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _post(self, body: Any) -> Any:
        data = json.dumps(body).encode()
        link: _Link | None = getattr(self._own, "link", None)
        if link is not None:
            # It may have been closed while it lay idle; asking twice does no harm.
            with contextlib.suppress(_ClosedIdle):
                return self._ask(link, data)
        return self._ask(self._connect(), data)

    def _connect(self) -> _Link:
        link = _Link(self._kind(self._host, self._port, timeout=self._timeout))
        self._own.link = link
        with self._lock:
            self._links.append(link)
        return link

    def _ask(self, link: _Link, data: bytes) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            link.http.request("POST", self._path, data, headers)
            response = link.http.getresponse()
            text = self._read(response)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self._drop(link)
            if link.answered:
                raise _ClosedIdle from error
            raise NodeAway(f"the node closed the connection: {type(error).__name__}") from error
        except AnswerTooLarge:
            self._drop(link)
            raise
        except (OSError, http.client.HTTPException) as error:
            self._drop(link)
            raise NodeAway(f"the node does not answer: {type(error).__name__}: {error}") from error
        link.answered = True
        _check_status(response, text)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the node's answer is not JSON: {_shown(text)}") from error

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        parts, size = [], 0
        while part := response.read(_CHUNK):
            size += len(part)
            if size > self._answer_max:
                raise AnswerTooLarge(f"the node's answer is over {self._answer_max} bytes")
            parts.append(part)
        return b"".join(parts)

    def _drop(self, link: _Link) -> None:
        self._own.link = None
        link.http.close()
        with self._lock:
            self._links.remove(link)


def _check_status(response: http.client.HTTPResponse, text: bytes) -> None:
    if response.status == 200:
        return
    if response.status == 429:
        after = None
        with contextlib.suppress(ValueError):
            after = float(response.headers.get("Retry-After", ""))
        raise RateLimited("the provider asks for patience (429)", retry_after=after)
    if response.status == 413:
        raise AnswerTooLarge("the provider finds the batch too large (413)")
    if response.status >= 500:
        raise NodeAway(f"the node answers {response.status}: {_shown(text)}")
    raise RpcFailed(f"the node answers {response.status}: {_shown(text)}")


def _result(answer: dict[str, Any], method: str) -> Any:
    """The result, or the error that stands in its place."""
    error = answer.get("error")
    if error is None:
        if "result" not in answer:
            raise _malformed(method, answer)
        return answer["result"]
    code = error.get("code", 0) if isinstance(error, dict) else 0
    said = str(error.get("message", "") if isinstance(error, dict) else error)
    text, low = f"{method}: {said[:_SHOWN]} ({code})", said.lower()
    missing = "not found" in low or "does not exist" in low
    if code == _METHOD_MISSING or ("method" in low and missing):
        return MethodMissing(text, rpc_code=code)
    if code in _LIMITED or any(words in low for words in _SAYS_LIMITED):
        return RateLimited(text)
    if any(words in low for words in _SAYS_BEHIND) or ("block" in low and missing):
        return Lagging(text)
    return RpcFailed(text, rpc_code=code if isinstance(code, int) else 0)


def _malformed(what: str, answer: Any) -> Malformed:
    return Malformed(f"the node's answer to {what} has another form: {_shown(str(answer))}")


def _shown(text: str | bytes) -> str:
    short = text[:_SHOWN]
    return short.decode(errors="replace") if isinstance(short, bytes) else short
