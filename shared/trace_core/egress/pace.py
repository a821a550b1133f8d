"""Keeps one upstream's limits: so many requests at once, and so many in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trace_core.egress.model import Limits


class Overdue(Exception):
    """The request's time was over before it was its turn."""


class Pace:
    """A second's worth may go at once; then they follow one another evenly."""

    def __init__(
        self, limits: Limits, monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._places = threading.BoundedSemaphore(limits.concurrency)
        self._rate = limits.requests_per_second
        self._burst = max(1.0, self._rate or 1.0)
        self._lock = threading.Lock()
        self._monotonic, self._sleep = monotonic, sleep
        self._tokens, self._at = self._burst, monotonic()
        self._not_before = 0.0

    @contextmanager
    def turn(self, deadline: float) -> Iterator[None]:
        """Wait for a place and a turn; raises `Overdue`."""
        if not self._places.acquire(timeout=max(0.0, deadline - self._monotonic())):
            raise Overdue
        try:
            wait = self._reserve(deadline)
            if wait > 0:
                self._sleep(wait)
            yield
        finally:
            self._places.release()

    def hold_back(self, seconds: float) -> None:
        """The upstream asked for a rest: it holds for everybody."""
        with self._lock:
            self._not_before = max(self._not_before, self._monotonic() + seconds)

    def _reserve(self, deadline: float) -> float:
        with self._lock:
            now = self._monotonic()
            wait = max(0.0, self._not_before - now)
            if self._rate is not None:
                self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
                self._at = now
                wait = max(wait, (1.0 - self._tokens) / self._rate)
            if now + wait > deadline:
                raise Overdue
            if self._rate is not None:
                self._tokens -= 1.0
            return wait
