"""The outbox relay: what a commit left to do outside the database, done at least once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from trace_core.kernel import limits
from trace_core.kernel.crash_points import CrashPoints, no_crash_points
from trace_core.kernel.errors import Busy, Denied, TraceError
from trace_core.kernel.ids import OrgId
from trace_core.outbox.store import Outbox, OutboxRow
from trace_core.ports.clock import Clock
from trace_core.ports.queue import Queue, wake_queue

logger = logging.getLogger(__name__)

Send = Callable[[OrgId, Sequence[OutboxRow]], None]
"""Does what the rows of one org and target ask for; raises when it must be tried again. Without
rows it looks whether there is anything to do. `Busy` means: all of it, when there is room."""


@dataclass(frozen=True)
class RelayReport:
    sent: int = 0
    waiting: int = 0
    """Put back until there is room: no fault of theirs, and nothing that went wrong."""
    postponed: int = 0
    failed: int = 0
    """Given up after the last try: these rows alarm."""


def send_wakeups(queue: Queue, runtime: str) -> Send:
    """Wake an org's workers by messages. Hints may be coalesced: each woken worker drains."""

    def send(org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        tasks = list(dict.fromkeys(task_id for row in rows for task_id in row.task_ids))
        bodies = [{"task_id": str(task_id)} for task_id in tasks[: limits.WAKE_FANOUT]]
        queue.send(wake_queue(runtime, org_id), bodies)

    return send


class Relay:
    """Any number run at once: a row belongs to whoever took it, until it is available again."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        sends: Mapping[str, Send],
        *,
        kinds: Mapping[str, Send] = MappingProxyType({}),
        crash_points: CrashPoints = no_crash_points,
    ) -> None:
        """`sends` has the ways to wake each runtime, `kinds` those of rows that are no wake-ups."""
        self._outbox = outbox
        self._clock = clock
        self._sends = sends
        self._kinds = kinds
        self._crash_points = crash_points

    def run_once(self, limit: int = 100) -> RelayReport:
        rows = self._outbox.take_due(self._clock.now(), limit)
        groups: dict[tuple[OrgId, str, str], list[OutboxRow]] = {}
        for row in rows:
            groups.setdefault((row.org_id, row.kind, row.target), []).append(row)
        sent = waiting = postponed = failed = 0
        # Wake-ups first: somebody waits for them, and other kinds may have to wait themselves.
        for (org_id, kind, target), group in sorted(
            groups.items(), key=lambda each: each[0][1] != "wake"
        ):
            self._crash_points("relay_send:before")
            try:
                self._send(kind, target)(org_id, group)
            except Busy:
                self._wait_for_room(org_id, group)
                waiting += 1
                sent += len(group) - 1
                continue
            except Exception as error:
                # One target that fails must not keep the others waiting.
                reason = error.code if isinstance(error, TraceError) else type(error).__name__
                logger.warning("outbox rows %s %s postponed: %s", kind, target, reason)
                given_up = self._outbox.postpone(
                    group, reason, self._clock.now(), hopeless=isinstance(error, Denied)
                )
                failed += given_up
                postponed += len(group) - given_up
                continue
            self._crash_points("relay_send:after")
            self._outbox.finish(group)
            sent += len(group)
        return RelayReport(sent, waiting, postponed, failed)

    def _wait_for_room(self, org_id: OrgId, group: Sequence[OutboxRow]) -> None:
        """One row waits for all of them, without using up a try; whoever makes room wakes us."""
        waits, *others = group
        self._outbox.put_back([waits], self._clock.now())
        if others:
            self._outbox.finish(others)
        # Room that came while we held the row has woken somebody who could not find it.
        try:
            self._send(waits.kind, waits.target)(org_id, ())
        except Busy:
            pass
        except Exception as error:
            # The row is there, so that the next to take it meets the same trouble, and counts it.
            logger.warning("no second look for %s: %s", waits.target, type(error).__name__)

    def run_until_idle(self, budget: timedelta) -> RelayReport:
        """Drain until nothing is due or the time is up; what one pass leaves, the next takes."""
        ends_at: datetime = self._clock.now() + budget
        total = RelayReport()
        while True:
            report = self.run_once()
            total = RelayReport(
                total.sent + report.sent,
                total.waiting + report.waiting,
                total.postponed + report.postponed,
                total.failed + report.failed,
            )
            if not report.sent or self._clock.now() >= ends_at:
                return total

    def _send(self, kind: str, target: str) -> Send:
        send = self._sends.get(target) if kind == "wake" else self._kinds.get(kind)
        if send is None:
            raise TraceError(f"No way to send {kind} to {target}.")
        return send
