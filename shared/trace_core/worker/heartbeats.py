"""Keeps the leases of running attempts, and learns from the answers when one must end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trace_core.kernel.errors import Conflict, NotFound, TaskCanceled, TraceError
from trace_core.worker.attempt import Attempt, Reason, RunControl

logger = logging.getLogger(__name__)

Beat = Callable[[Mapping[str, Any]], str]
"""Sends the fence of one attempt and answers its status."""


@dataclass
class _Running:
    attempt: Attempt
    control: RunControl
    due_at: float
    ending: bool = False


class Heartbeats:
    """One thread for all attempts; each beats at its own job's interval."""

    def __init__(self, beat: Beat, cancel_grace: float) -> None:
        self._beat = beat
        self._cancel_grace = cancel_grace
        self._running: dict[tuple[str, int], _Running] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="trace-heartbeats", daemon=True)
        self._thread.start()

    def add(self, attempt: Attempt, control: RunControl) -> None:
        with self._changed:
            due_at = time.monotonic() + attempt.heartbeat
            self._running[attempt.key] = _Running(attempt, control, due_at)
            self._changed.notify()

    def ending(self, attempt: Attempt) -> None:
        """Its run is over, and its report is on the way: when a beat crosses that, the lease is
        given up and not lost. Until the report has arrived it goes on beating."""
        with self._changed:
            running = self._running.get(attempt.key)
            if running is not None:
                running.ending = True

    def remove(self, attempt: Attempt) -> None:
        with self._changed:
            self._running.pop(attempt.key, None)

    def interrupt_all(self, reason: Reason, grace: float) -> None:
        with self._changed:
            running = list(self._running.values())
        for each in running:
            each.control.interrupt(reason, grace)

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _loop(self) -> None:
        while (due := self._wait()) is not None:
            for each in due:
                self._beat_once(each)

    def _wait(self) -> list[_Running] | None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                due = [each for each in self._running.values() if each.due_at <= now]
                if due:
                    for each in due:
                        each.due_at = now + each.attempt.heartbeat
                    return due
                next_at = min((each.due_at for each in self._running.values()), default=None)
                self._changed.wait(None if next_at is None else next_at - now)
            return None

    def _beat_once(self, running: _Running) -> None:
        try:
            if self._beat(running.attempt.fence) == "Canceled":
                running.control.interrupt(Reason.CANCELED, self._cancel_grace)
        except TaskCanceled:
            running.control.interrupt(Reason.CANCELED, self._cancel_grace)
        except (Conflict, NotFound) as error:
            if running.ending:
                return
            logger.warning("%s is no longer ours: %s", running.attempt, error.message)
            running.control.interrupt(Reason.LEASE_LOST, 0)
        except TraceError as error:
            # The lease outlasts a few lost beats, and the fence decides in the end.
            logger.warning("no heartbeat for %s: %s", running.attempt, error.message)
        except Exception:
            logger.exception("the heartbeat of %s failed", running.attempt)
