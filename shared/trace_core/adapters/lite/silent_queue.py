"""A queue without wake-ups, for a worker that reaches the internal API and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from trace_core.kernel.errors import Unavailable
from trace_core.ports.queue import Message, QueueDepth


class SilentQueue:
    """Nothing ever arrives: its worker polls instead. Wake-ups are hints, so no work is lost."""

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        raise Unavailable("This process has no queue to send to.")

    def receive(
        self, queue: str, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        threading.Event().wait(wait.total_seconds())
        return []

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        """Nothing was received, so nothing is hidden."""

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        """Nothing was received, so nothing is to be acknowledged."""

    def depth(self, queue: str) -> QueueDepth:
        return QueueDepth(0, 0, 0)

    def redrive(self, queue: str, *, limit: int) -> int:
        return 0
