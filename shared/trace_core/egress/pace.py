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
        rate = limits.requests_per_second
        self._gap = 0.0 if rate is None else 1 / rate
        """Between two requests, when they follow one another evenly."""
        self._ahead = self._gap * (max(1.0, rate or 1.0) - 1.0)
        """How far before its even place a request may go."""
        self._lock = threading.Lock()
        self._monotonic, self._sleep = monotonic, sleep
        self._even = self._not_before = monotonic()

    @contextmanager
    def turn(self, deadline: float) -> Iterator[None]:
        """Wait for a place and a turn; raises `Overdue`."""
        if not self._places.acquire(timeout=max(0.0, deadline - self._monotonic())):
            raise Overdue
        try:
            goes = self._reserve(deadline)
            while True:
                if (wait := goes - self._monotonic()) > 0:
                    self._sleep(wait)
                if not self._rests_after(goes):
                    break
                # The upstream asked for a rest while this one waited: it takes another turn.
                goes = self._reserve(deadline)
            yield
        finally:
            self._places.release()

    def hold_back(self, seconds: float) -> None:
        """The upstream asked for a rest: it holds for everybody."""
        with self._lock:
            self._not_before = max(self._not_before, self._monotonic() + seconds)

    def _rests_after(self, goes: float) -> bool:
        with self._lock:
            return self._not_before > goes

    def _reserve(self, deadline: float) -> float:
        with self._lock:
            now = self._monotonic()
            goes = max(now, self._not_before, self._even - self._ahead)
            if goes > deadline:
                raise Overdue
            # Counted from when it goes, not from now: those that wait out a rest together would
            # else go together, however many they are.
            self._even = max(self._even, goes) + self._gap
            return goes
