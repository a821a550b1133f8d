"""Runs the scheduled functions on one machine: at their times, and at once when pushed.

Each function has a thread of its own, which outlives whatever its function raises.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trace_core.adapters.lite.notify import NotifyListener
from trace_core.http.proxy_event import LocalContext
from trace_core.ports.waker import Function

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
PAUSE_AFTER_FAILURE = timedelta(seconds=1)
"""So that a push storm during an outage does not become a loop."""


@dataclass(frozen=True)
class Scheduled:
    """A function, how often it runs, and by which push it runs at once."""

    name: str
    handler: Handler
    every: timedelta
    pushed_as: Function | None = None


@dataclass(frozen=True)
class Counts:
    runs: int = 0
    failures: int = 0


class _Runner(threading.Thread):
    def __init__(self, scheduled: Scheduled, *, schedules: bool) -> None:
        super().__init__(name=scheduled.name, daemon=True)
        self.counts = Counts()
        self._scheduled = scheduled
        self._every = scheduled.every.total_seconds() if schedules else None
        self._pushed = threading.Event()
        self._stopping = threading.Event()
        self._numbers = itertools.count(1)

    def push(self) -> None:
        self._pushed.set()

    def stop(self) -> None:
        self._stopping.set()
        self._pushed.set()

    def run(self) -> None:
        while True:
            self._pushed.wait(self._every)
            # Cleared before the run: a push that arrives while it runs asks for another one.
            self._pushed.clear()
            if self._stopping.is_set():
                return
            self._invoke()

    def _invoke(self) -> None:
        context = LocalContext(f"{self.name}-{next(self._numbers)}", self.name)
        try:
            self._scheduled.handler({"source": "trace.schedule"}, context)
        except Exception:
            # The function has logged it with its kind and place; here it is only counted.
            self.counts = Counts(self.counts.runs + 1, self.counts.failures + 1)
            self._stopping.wait(PAUSE_AFTER_FAILURE.total_seconds())
        else:
            self.counts = Counts(self.counts.runs + 1, self.counts.failures)


class _Ear(threading.Thread):
    """Passes the pushes that other processes send through Postgres on to a runner."""

    _LOOK_UP = timedelta(seconds=1)

    def __init__(self, dsn: str, function: Function, runner: _Runner) -> None:
        super().__init__(name=f"push-{function}", daemon=True)
        self._listener = NotifyListener(dsn, function)
        self._runner = runner
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            if self._listener.wait(self._LOOK_UP):
                self._runner.push()

    def stop(self) -> None:
        self._stopping.set()
        self._listener.close()


class Scheduler:
    """Either way of starting may be switched off: the other one must do alone."""

    def __init__(
        self,
        functions: Sequence[Scheduled],
        dsn: str,
        *,
        schedules: bool = True,
        push: bool = True,
    ) -> None:
        self._dsn = dsn
        self._push = push
        self._functions = functions
        self._runners = [_Runner(each, schedules=schedules) for each in functions]
        self._ears: list[_Ear] = []

    def start(self) -> None:
        for each, runner in zip(self._functions, self._runners, strict=True):
            runner.start()
            if self._push and each.pushed_as is not None:
                ear = _Ear(self._dsn, each.pushed_as, runner)
                self._ears.append(ear)
                ear.start()

    def stop(self, seconds: float = 5.0) -> None:
        for ear in self._ears:
            ear.stop()
        for runner in self._runners:
            runner.stop()
        threads: list[threading.Thread] = [*self._ears, *self._runners]
        for thread in threads:
            if thread.is_alive():
                thread.join(seconds)

    @property
    def counts(self) -> Mapping[str, Counts]:
        return {runner.name: runner.counts for runner in self._runners}
