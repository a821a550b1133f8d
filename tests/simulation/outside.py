"""What lies outside the database, all of it unreliable: a queue, a lambda runtime, pushes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.faults import Faults
from trace_core.kernel.errors import Unavailable
from trace_core.ports.queue import Message, QueueDepth
from trace_core.ports.waker import Function


@dataclass
class _Stored:
    body: Mapping[str, Any]
    visible_at: datetime
    number: int
    receive_count: int = 0


class SimulatedQueue:
    """Messages may be lost, repeated, late and out of order; sometimes nobody answers."""

    def __init__(
        self,
        faults: Faults,
        rng: random.Random,
        now: Callable[[], datetime],
        *,
        arrives: Callable[[str, float], None],
        lost: Callable[[str], None],
    ) -> None:
        self._faults, self._rng, self._now = faults, rng, now
        self._arrives, self._lost = arrives, lost
        self._messages: dict[str, list[_Stored]] = {}
        self._numbers = 0
        self.out_until: datetime | None = None

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        if self.out_until is not None and self._now() < self.out_until:
            raise Unavailable("The queue does not answer.")
        # The order of a batch is no promise, and must not depend on the layout of a table.
        for body in sorted(bodies, key=lambda body: str(body["task_id"])):
            if self._faults.happens("message_lost", 0.06):
                self._lost(queue)
                continue
            self._store(queue, body)
            if self._faults.happens("message_duplicate", 0.06):
                self._store(queue, body)

    def _store(self, queue: str, body: Mapping[str, Any]) -> None:
        wait = self._rng.uniform(0.01, 0.5)
        if self._faults.happens("message_late", 0.06):
            wait = self._rng.uniform(5, 90)
        self._numbers += 1
        visible_at = self._now() + timedelta(seconds=wait)
        self._messages.setdefault(queue, []).append(_Stored(body, visible_at, self._numbers))
        self._arrives(queue, wait)

    def receive(
        self, queue: str, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        visible = [m for m in self._messages.get(queue, ()) if m.visible_at <= self._now()]
        if len(visible) > 1 and self._faults.happens("message_reordered", 0.3):
            self._rng.shuffle(visible)
        taken = visible[:limit]
        for message in taken:
            message.visible_at = self._now() + visibility
            message.receive_count += 1
        return [Message(m.body, f"{m.number}:{m.receive_count}", m.receive_count) for m in taken]

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        for message in self._messages.get(queue, ()):
            if receipt == f"{message.number}:{message.receive_count}":
                message.visible_at = self._now() + visibility

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        left = self._messages.get(queue, [])
        self._messages[queue] = [m for m in left if f"{m.number}:{m.receive_count}" not in receipts]

    def depth(self, queue: str) -> QueueDepth:
        messages = self._messages.get(queue, [])
        visible = sum(m.visible_at <= self._now() for m in messages)
        return QueueDepth(visible, len(messages) - visible, 0)

    def redrive(self, queue: str, *, limit: int) -> int:
        return 0


class SimulatedRuntime:
    """Lambda: a run may begin twice, late, or never; or die before its first call."""

    def __init__(
        self,
        faults: Faults,
        rng: random.Random,
        begins: Callable[[Mapping[str, Any], float, bool], None],
    ) -> None:
        self._faults, self._rng, self._begins = faults, rng, begins
        self.down = False
        self.concurrency = rng.choice((1, 2, 20))
        """So many are reserved or running at once, in all orgs together."""

    def room(self) -> int:
        if self._faults.happens("runtime_busy", 0.06):
            return 0
        return self._rng.choice((1, 5, 20))

    def start(self, payload: Mapping[str, Any]) -> None:
        if self._faults.on and self.down and self._rng.random() < 0.9:
            # An outage that accepts and forgets: five in a row count as a failed attempt.
            self._faults.kinds["invoke_lost"] += 1
            return
        if self._faults.happens("invoke_lost", 0.06):
            return
        self._invoke(payload)
        if self._faults.happens("invoke_duplicate", 0.08):
            self._invoke(payload)
        if self._faults.happens("invoke_refused", 0.04):
            # It did start, and still the answer is an error: the start token decides.
            raise Unavailable("The invoke was not confirmed.")

    def _invoke(self, payload: Mapping[str, Any]) -> None:
        wait = self._rng.uniform(0.05, 1.5)
        if self._faults.happens("invoke_late", 0.05):
            wait = self._rng.uniform(50, 150)
        self._begins(payload, wait, self._faults.happens("run_dead_before_exchange", 0.05))


class SimulatedWaker:
    def __init__(self, faults: Faults, wake: Callable[[Function], None]) -> None:
        self._faults, self._wake = faults, wake

    def wake(self, function: Function) -> None:
        if not self._faults.happens("wake_lost", 0.08):
            self._wake(function)
