"""Ctrl-C and SIGTERM as an event, so that everything can be stopped in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """An event that the first signal sets; a second one does what it always does."""
    stop = threading.Event()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for each in (signal.SIGINT, signal.SIGTERM):
        before[each] = signal.signal(each, interrupt)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
