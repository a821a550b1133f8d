"""How a wrapper hears that there may be work, before its next poll."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from trace_core.ports.queue import Queue

_HINTS = 10
_HINT_VISIBILITY = timedelta(seconds=30)


class WakeUps(Protocol):
    def wait(self, timeout: timedelta) -> list[str]:
        """Receipts of the hints that came meanwhile; none when the time is over."""
        ...

    def acknowledge(self, receipts: Sequence[str]) -> None:
        """Somebody claims for these hints: they need to wake nobody else."""
        ...


class QueueWakeUps:
    """Hints from the queue of the worker's org."""

    def __init__(self, queue: Queue, name: str) -> None:
        self._queue = queue
        self._name = name

    def wait(self, timeout: timedelta) -> list[str]:
        messages = self._queue.receive(
            self._name, limit=_HINTS, visibility=_HINT_VISIBILITY, wait=timeout
        )
        return [message.receipt for message in messages]

    def acknowledge(self, receipts: Sequence[str]) -> None:
        self._queue.delete(self._name, receipts)


class NoWakeUps:
    """For a worker that reaches the internal API and nothing else: it polls."""

    def wait(self, timeout: timedelta) -> list[str]:
        threading.Event().wait(timeout.total_seconds())
        return []

    def acknowledge(self, receipts: Sequence[str]) -> None:
        """Nothing was heard, so nothing is to be acknowledged."""
