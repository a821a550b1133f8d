"""`runtime: lambda` on one machine: warm child processes instead of functions."""

from __future__ import annotations

import copy
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from trace_core.kernel.errors import Unavailable
from trace_core.worker.attempt import Reason, RunControl
from trace_core.worker.runner import Runner

logger = logging.getLogger(__name__)


class ProcessRuntime:
    """Hands payloads to `concurrency` runners at once and keeps up to `backlog` more waiting.

    The backlog is short: what waits in it is reserved, and a reservation lapses.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        concurrency: int,
        backlog: int = 2,
        when_free: Callable[[], None] = lambda: None,
    ) -> None:
        self._runner = runner
        self._when_free = when_free
        self._limit = concurrency + backlog
        self._lock = threading.Lock()
        self._held = 0
        self._running: set[RunControl] = set()
        self._closing = False
        self._payloads: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"trace-process-{number}", daemon=True)
            for number in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def room(self) -> int:
        with self._lock:
            return 0 if self._closing else self._limit - self._held

    def start(self, payload: Mapping[str, Any]) -> None:
        with self._lock:
            if self._closing:
                raise Unavailable("the runtime is closing")
            if self._held >= self._limit:
                raise Unavailable("the runtime has as much work as it can hold")
            self._held += 1
        # A copy: the caller may go on and change its own.
        self._payloads.put(copy.deepcopy(dict(payload)))

    def close(self, grace: float = 10.0) -> None:
        """Take nothing more, drop what has not begun, and end what runs after `grace` seconds.

        What is dropped was not exchanged: its reservation lapses and is sent again.
        """
        with self._lock:
            self._closing = True
            running = list(self._running)
        for control in running:
            control.interrupt(Reason.STOPPED, grace)
        for _ in self._threads:
            self._payloads.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (payload := self._payloads.get()) is not None:
            control = RunControl()
            with self._lock:
                dropped = self._closing
                self._running.add(control)
            try:
                if not dropped:
                    self._runner.run(payload, control)
            except Exception:
                # Nobody waits for the answer; the reservation or the lease ends by itself.
                logger.exception("the run of task %s failed", payload.get("task_id"))
            finally:
                with self._lock:
                    self._held -= 1
                    self._running.discard(control)
                self._when_free()
