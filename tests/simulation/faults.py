"""What goes wrong, when, and how often: every draw comes from the schedule's own generator."""

from __future__ import annotations

import random
from collections import Counter

from trace_core.kernel.errors import Unavailable


class Crash(BaseException):
    """The process is gone. No `except Exception` of a service may outlive it."""


KINDS = (
    "message_lost", "message_duplicate", "message_late", "message_reordered", "queue_outage",
    "wake_lost", "invoke_lost", "invoke_duplicate", "invoke_late", "invoke_refused",
    "run_dead_before_exchange", "exchange_reply_lost", "run_dead", "run_stalled", "run_failed",
    "run_failed_for_good", "run_timed_out", "completion_repeated", "completion_other_body",
    "stale_report", "foreign_call", "crash", "connection_lost_before", "connection_lost_after",
    "worker_killed", "restart", "clock_skew", "stepped_in", "runtime_busy", "canceled", "retried",
    "paused", "triggered", "redeployed", "outbox_reset", "event_repeated", "event_rewritten",
    "quota_set", "hour_used_up", "first_deploy", "first_deploy_failed", "edited", "edited_again",
    "edit_lost", "rolled_back", "deploy_paused", "deploy_resumed", "deploy_canceled",
    "checks_failed", "cut_over", "waited", "live_during_build",
)  # fmt: skip

_FIRST_TIME, _LATER = 0.05, 0.006
_CRASHES = {
    "deploy": 0.08, "set_quota": 0.15, "rollback": 0.08, "cancel_deploy": 0.08,
    "pause_deploy": 0.08, "note_report": 0.15, "cutover": 0.15, "rest_sources": 0.25,
    "deploy_status": 0.08, "fill_gap": 0.03, "revive": 0.03, "release_kept": 0.03,
    "deploy_end": 0.03,
}  # fmt: skip
"""What happens once or twice in a schedule, or not at all, crashes the more often."""
_LOST_CONNECTION = 0.01


class Faults:
    """Counts what it lets happen, and which named points were reached and crashed at."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.on = True
        self.kinds: Counter[str] = Counter()
        self.reached: set[str] = set()
        self.crashed: Counter[str] = Counter()
        # Some schedules are rough and some are nearly calm: long chains need luck to get far.
        self.intensity = rng.choice((0.5, 1.0, 1.0, 1.8))

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    def happens(self, kind: str, probability: float) -> bool:
        if not self.on or self.rng.random() >= probability * self.intensity:
            return False
        self.kinds[kind] += 1
        return True

    def point(self, name: str) -> None:
        """A named point of a service: crash here, lose the connection here, or go on."""
        first = name not in self.reached
        self.reached.add(name)
        if not self.on:
            return
        draw = self.rng.random()
        seldom = _FIRST_TIME if first else _LATER
        crash = _CRASHES.get(name.partition(":")[0], seldom) * self.intensity
        if draw < crash:
            self.kinds["crash"] += 1
            self.crashed[name] += 1
            raise Crash(name)
        if draw < crash + _LOST_CONNECTION * self.intensity:
            moment = name.rpartition(":")[2]
            if moment in ("begin", "before_commit"):
                self.kinds["connection_lost_before"] += 1
                raise Unavailable("The connection is lost before the commit.")
            if moment == "after_commit":
                self.kinds["connection_lost_after"] += 1
                raise Unavailable("The connection is lost after the commit.")
