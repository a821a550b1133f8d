"""How a wrapper hears that there may be work, before its next poll."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from trace_core.ports.queue import Queue
from trace_core.worker.client import WorkerApi

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


class RemoteWakeUps:
    """For a worker that has HTTP only: the internal API waits for it."""

    def __init__(self, api: WorkerApi) -> None:
        self._api = api
        self._seen: int | None = None

    def wait(self, timeout: timedelta) -> list[str]:
        seen = self._api.wake_ups(self._seen, timeout.total_seconds())
        if seen is None:
            # Nobody hears there, and the worker polls: as if this had been the wait.
            time.sleep(timeout.total_seconds())
            return []
        # The first answer counts too: what arrived before it was not heard of.
        woken, self._seen = seen != self._seen, seen
        return ["heard"] if woken else []

    def acknowledge(self, receipts: Sequence[str]) -> None:
        """Nothing was received: the messages themselves are for those who reach the queue."""
