"""What the Dispatcher does each time it runs, pushed or by schedule."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from trace_core.database.state import StateDatabase
from trace_core.dispatcher.control import Control
from trace_core.identity import rate_limits
from trace_core.kernel import limits
from trace_core.kernel.ids import Ids
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.statements import SQL

logger = logging.getLogger(__name__)
_BATCH = 500
_SWEEP_TARGETS = 50


@dataclass(frozen=True)
class DispatchReport:
    ran: int = 0
    """Control tasks that were claimed."""
    due: int = 0
    """Retries and slices whose time had come."""
    swept: int = 0
    """Stranded work that was woken again."""
    chores: int = 0
    """What builds and other sweeps did beside."""


Chore = Callable[[], int]
"""One pass of something that must happen again and again; answers how much it did."""


class Dispatcher:
    """Any number run at once: every step is a guarded statement."""

    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        control: Control,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
        chores: Sequence[Chore] = (),
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._control = control
        self._timings = timings
        self._chores = chores

    def run_once(self) -> DispatchReport:
        now = self._clock.now()
        swept = self._state.write("sweep_requests", SQL["sweep_requests"], {"now": now})
        due = self._state.write(
            "move_due",
            SQL["move_due"],
            {
                "now": now,
                "limit": _BATCH,
                "outbox_series": self._ids.series(),
                "wake_fanout": limits.WAKE_FANOUT,
            },
        )
        woken = self._state.write(
            "sweep_ready",
            SQL["sweep_ready"],
            {
                "now": now,
                "grace": self._timings.sweep_grace,
                "limit": _SWEEP_TARGETS,
                "outbox_series": self._ids.series(),
            },
        )
        if due or woken:
            self._waker.wake(Function.OUTBOX_RELAY)
        ran = self._control.run_once()
        return DispatchReport(ran, len(due), len(swept) + len(woken), self._do_chores())

    def _do_chores(self) -> int:
        done = 0
        for chore in self._chores:
            try:
                done += chore()
            except Exception:
                # One that fails must not keep the others waiting; it is tried again next time.
                logger.exception("a chore of the Dispatcher failed")
        return done

    def run_until_idle(self, budget: timedelta) -> DispatchReport:
        """Drain until nothing is left to do or the time is up."""
        now = self._clock.now()
        rate_limits.forget(self._state, now)
        ends_at = now + budget
        total = DispatchReport()
        while True:
            report = self.run_once()
            total = DispatchReport(
                total.ran + report.ran,
                total.due + report.due,
                total.swept + report.swept,
                total.chores + report.chores,
            )
            over = self._clock.now() >= ends_at
            if over or not (report.ran or report.due or report.chores):
                return total
