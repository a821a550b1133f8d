"""One actor whose statement waits for a lock, until whoever holds it has committed.

All else of a schedule is one thread. Here a second one runs a single turn, on a connection of its
own; it and the schedule are never at work at the same time, so that a seed stays a schedule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.database import SimulatedState

_SECONDS = 30.0


class Waiting:
    def __init__(self, state: SimulatedState) -> None:
        self._state = state
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_somebody(self) -> bool:
        return self._thread is not None

    def begin(self, act: Callable[[], None]) -> bool:
        """Run it until it waits for a lock, or to its end; whether it waits."""

        def run() -> None:
            self._state.depth = 2
            try:
                act()
            except BaseException as error:
                self._error = error

        self._error = None
        thread = self._thread = threading.Thread(target=run, daemon=True)
        thread.start()
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            thread.join(0.0003)
            if not thread.is_alive():
                self.end()
                return False
            if self._state.is_waiting():
                return True
        raise TimeoutError("it neither ends nor waits")

    def end(self) -> None:
        """The lock is free: it goes on to its end, and what it raised is raised here."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(_SECONDS)
        if thread.is_alive():
            raise TimeoutError("it still waits")
        if self._error is not None:
            raise self._error
