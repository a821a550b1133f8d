"""The gateway itself: each attempt gets an address of its own, which leads to its upstream only.

It runs in the worker wrapper, beside the children whose operators call it. The key of an upstream
stays on this side: a child sees an address on loopback that nobody can guess and that ends with
its attempt.
"""

from __future__ import annotations

import json
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from trace_core.egress.model import Upstream, Wanted, known, wanted
from trace_core.egress.pace import Pace
from trace_core.egress.sending import GivenUp, Sender
from trace_core.egress.server import Call, LoopbackServer, Refused, Reply
from trace_core.egress.usage import Counter, Fault, Usage
from trace_core.kernel.backoff import Jitter
from trace_core.kernel.errors import Rejected

logger = logging.getLogger(__name__)
# Without accept-encoding: answers are looked through for the key, so they come as they are.
_PASSED = ("content-type", "content-encoding", "accept")
_BODY_OF_NOBODY = 1024


@dataclass(frozen=True)
class _Route:
    sender: Sender
    upstream: Upstream
    counter: Counter
    deadline: float


@dataclass(frozen=True)
class Opened:
    """What one attempt sees of the gateway, and what it used of it."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """Parts of its addresses that must not reach its log."""
    counter: Counter = field(default_factory=Counter, repr=False)

    @property
    def usage(self) -> Usage:
        return self.counter.usage

    @property
    def last_fault(self) -> Fault | None:
        return self.counter.last_fault


class EgressGateway:
    """Listens from the first attempt that needs it until `close`."""

    def __init__(
        self, upstreams: Mapping[str, Upstream], *, jitter: Jitter = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_token: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:  # fmt: skip
        self._upstreams = dict(upstreams)
        self._jitter, self._now, self._new_token = jitter, now, new_token
        self._lock = threading.Lock()
        self._server: LoopbackServer | None = None
        self._routes: dict[str, _Route] = {}
        # Limits are the provider's, so they hold for all keys and tasks of this process.
        self._paces = {name: Pace(each.limits) for name, each in self._upstreams.items()}
        self._counters = {name: Counter() for name in self._upstreams}
        self._senders: dict[tuple[str, str], Sender] = {}

    @property
    def used(self) -> dict[str, Usage]:
        """What this process has taken of each upstream."""
        return {name: counter.usage for name, counter in self._counters.items()}

    @contextmanager
    def opened(self, env: Mapping[str, str], seconds: float) -> Iterator[Opened]:
        """The environment with addresses in the place of keys, for at most `seconds`."""
        asked = wanted(env)
        if not self._upstreams:
            # There is no gateway, and a slot gives what it says, but never a key meant for one.
            _refuse_keys(asked, env)
            asked = []
        if not asked:
            yield Opened(dict(env))
            return
        seen, tokens = dict(env), []
        counter = Counter()
        try:
            for each in asked:
                sender = self._sender(each.upstream, seen.pop(each.key_variable, None))
                token = self._new_token()
                tokens.append(token)
                route = _Route(
                    sender, self._upstreams[each.upstream],
                    Counter(counter, self._counters[each.upstream]),
                    time.monotonic() + seconds,
                )  # fmt: skip
                with self._lock:
                    self._routes[token] = route
                seen[each.url_variable] = f"http://127.0.0.1:{self._port()}/{token}"
            yield Opened(seen, tuple(tokens), counter)
        finally:
            with self._lock:
                for token in tokens:
                    self._routes.pop(token, None)

    def close(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            senders, self._senders = list(self._senders.values()), {}
        if server is not None:
            server.close()
        for sender in senders:
            sender.close()

    def _port(self) -> int:
        with self._lock:
            if self._server is None:
                self._server = LoopbackServer(self._answer, _refusal, self._body_max)
            return self._server.port

    def _sender(self, name: str, key: str | None) -> Sender:
        upstream = self._upstreams.get(name)
        if upstream is None:
            raise Rejected(
                f"the slot names upstream {name}, which this worker does not have; "
                f"TRACE_UPSTREAMS has: {known(self._upstreams)}"
            )
        if upstream.needs_key and not key:
            raise Rejected(f"upstream {name} needs a key, and the slot's secrets give it none")
        # A key with a line break would be a header of its own; in an address it is quoted.
        if upstream.header and key and not (key.isascii() and key.isprintable()):
            raise Rejected(f"the key of upstream {name} has characters that no header may have")
        with self._lock:
            sender = self._senders.get((name, key or ""))
            if sender is None:
                sender = Sender(
                    name, upstream, key or "", pace=self._paces[name], jitter=self._jitter,
                    now=self._now,
                )  # fmt: skip
                self._senders[(name, key or "")] = sender
            return sender

    def _route(self, path: str) -> _Route | None:
        with self._lock:
            return self._routes.get(path.removeprefix("/"))

    def _body_max(self, path: str) -> int:
        route = self._route(path)
        return route.upstream.limits.request_bytes if route else _BODY_OF_NOBODY

    def _answer(self, call: Call) -> Reply:
        route = self._route(call.path)
        if route is None or time.monotonic() >= route.deadline:
            raise Refused(404, "no attempt has this address, or it has ended")
        headers = {name: call.headers[name] for name in _PASSED if name in call.headers}

        def abandoned() -> bool:
            return call.gone() or self._route(call.path) is not route

        try:
            answer = route.sender.send(call.body, headers, route.counter, route.deadline, abandoned)
        except GivenUp as error:
            logger.warning("%s", error.what)
            return _told(error.status, error.fault, error.what)
        return Reply(answer.status, answer.body, {"Content-Type": answer.content_type})


def _refuse_keys(asked: Iterable[Wanted], env: Mapping[str, str]) -> None:
    for each in asked:
        if each.key_variable in env:
            raise Rejected(
                f"the slot gives {each.key_variable} for upstream {each.upstream}, and this worker "
                "has no gateway that would keep it from the operator: set TRACE_UPSTREAMS"
            )


def _refusal(refused: Refused) -> Reply:
    return _told(refused.status, None, refused.why)


def _told(status: int, fault: Fault | None, message: str) -> Reply:
    error: dict[str, Any] = {"code": fault.value if fault else "refused", "message": message}
    return Reply(
        status, json.dumps({"error": error}).encode(), {"Content-Type": "application/json"}
    )
