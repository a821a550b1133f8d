"""What a conformance suite needs to know about the adapter that it runs over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trace_core.ports.arrivals import Arrivals
from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import CredentialIssuer, Credentials
from trace_core.ports.key_source import KeySource
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Message, Queue, QueueDepth
from trace_core.ports.secret_store import SecretStore
from trace_core.ports.token_signer import TokenSigner
from trace_core.ports.waker import Function, Waker

NO_WAIT = timedelta(0)
LONG = timedelta(minutes=5)

Outage = Callable[[], AbstractContextManager[None]]
"""Inside the block the service behind the adapter does not answer."""


@dataclass(frozen=True)
class QueueHarness:
    queue: Queue
    name: str
    """A queue that no other test uses."""
    other_name: str
    """Another one."""
    max_receives: int
    visibility: timedelta
    """The shortest one that a test may wait for."""
    let_pass: Callable[[timedelta], None]
    """Time goes by: slept through, or set on a clock."""
    wakes_within: timedelta
    """How soon a waiting receiver gets what was sent."""
    patience: timedelta
    """How long counts and moves may take to show."""
    outage: Outage
    exact_receipts: bool = True
    """Whether a receipt that is no longer current is worth nothing. On SQS it may still delete."""

    def receive(self, limit: int = 1, visibility: timedelta = LONG) -> list[Message]:
        """One receive, without waiting longer than the adapter needs to find what is there."""
        return self.queue.receive(self.name, limit=limit, visibility=visibility, wait=NO_WAIT)

    def receive_all(self, count: int, visibility: timedelta = LONG) -> list[Message]:
        """Exactly that many messages, in as many receives as the adapter needs."""
        found: list[Message] = []
        deadline = time.monotonic() + self.patience.total_seconds()
        while len(found) < count and time.monotonic() < deadline:
            found += self.receive(min(10, count - len(found)), visibility)
        assert len(found) == count
        return found

    def depth_becomes(self, expected: QueueDepth) -> bool:
        return self.becomes(lambda: self.queue.depth(self.name) == expected)

    def becomes(self, check: Callable[[], bool]) -> bool:
        return becomes(check, self.patience)


@dataclass(frozen=True)
class ObjectStoreHarness:
    store: ObjectStore
    another: Callable[[], ObjectStore]
    """The same store as another process sees it."""
    fetch: Callable[[str], bytes]
    """Reads an address without the store's credentials."""


@dataclass(frozen=True)
class SecretStoreHarness:
    store: SecretStore
    another: Callable[[], SecretStore]


@dataclass(frozen=True)
class TokenSignerHarness:
    signer: TokenSigner
    another: Callable[[], TokenSigner]
    rotate: Callable[[], None]


@dataclass(frozen=True)
class ArrivalsHarness:
    arrivals: Arrivals
    send: Callable[[str], None]

    def settled(self, queue: str) -> int | None:
        """What was seen once it listens, which may count as an arrival of its own."""
        return self.arrivals.next(queue, 0, timedelta(seconds=10))


@dataclass(frozen=True)
class CredentialsHarness:
    issuer: CredentialIssuer
    store: ObjectStore
    """The platform's own view of the objects."""
    read: Callable[[Credentials, str], bytes]
    """Reads an object with nothing but those credentials."""


@dataclass(frozen=True)
class KeySourceHarness:
    source: KeySource
    sign: Callable[[Mapping[str, Any]], str]
    """A token of the issuer's current key."""
    rotate: Callable[[], None]


@dataclass(frozen=True)
class ClockHarness:
    clock: Clock
    let_pass: Callable[[timedelta], None]


@dataclass(frozen=True)
class WakerHarness:
    waker: Waker
    was_woken: Callable[[Function, timedelta], bool]
    """Whether the function was asked to run since the last question, or is within that time."""
    outage: Outage
    patience: timedelta


def becomes(check: Callable[[], bool], patience: timedelta) -> bool:
    """Whether the check holds before the time is over."""
    deadline = time.monotonic() + patience.total_seconds()
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
