"""Reports outcomes until each is accepted or no longer wanted; what waits goes out together."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trace_core.kernel import limits
from trace_core.kernel.backoff import delay
from trace_core.kernel.errors import (
    Conflict,
    Rejected,
    Superseded,
    TaskCanceled,
    TraceError,
    Unavailable,
)
from trace_core.worker.attempt import Attempt
from trace_core.worker.outcome import CANCELED, SUPERSEDED, Outcome, failure

logger = logging.getLogger(__name__)

Send = Callable[[Sequence[Mapping[str, Any]]], list[TraceError | None]]
PATIENCE = 3600.0
"""Long past every lease; after that the platform has given the task to somebody else."""
_BATCH_MAX = 100
_BATCH_BYTES = limits.REQUEST_BODY_MAX // 2
_BACKOFF_BASE = timedelta(milliseconds=100)
_BACKOFF_CAP = timedelta(seconds=10)


@dataclass(frozen=True)
class Report:
    attempt: Attempt
    outcome: Outcome

    @property
    def body(self) -> dict[str, Any]:
        return {**self.attempt.fence, **self.outcome.fields}


def follow_up(report: Report, error: TraceError | None) -> Report | None:
    """What to report after this answer: None when that is settled. Raises `Unavailable`."""
    match error:
        case None:
            return None
        case Unavailable():
            raise error
        case TaskCanceled() if report.outcome.status != "Canceled":
            return Report(report.attempt, CANCELED)
        case Superseded() if report.outcome.status == "Completed":
            # Newer inputs are in the output already: at once again, and no attempt is used up.
            return Report(report.attempt, SUPERSEDED)
        case Rejected() if report.outcome.status in ("Completed", "Yielded"):
            # The platform does not take this result; without a report it would wait for the lease.
            message = f"the platform refused the result: {error.message}"
            return Report(report.attempt, failure(error.code, message, retryable=False))
        case Conflict():
            logger.warning("%s: completion dropped: %s", report.attempt, error.message)
        case _:
            logger.error("%s: completion refused: %s", report.attempt, error.message)
    return None


def report_until_settled(report: Report, send: Send, patience: float = PATIENCE) -> bool:
    """Report one outcome, again after connection losses; False when patience ended."""
    give_up_at = time.monotonic() + patience
    tries = 0
    following: Report | None = report
    while following is not None:
        try:
            following = follow_up(following, _send_one(send, following))
        except Unavailable as error:
            wait = delay(_BACKOFF_BASE, _BACKOFF_CAP, tries, random.random).total_seconds()
            if time.monotonic() + wait >= give_up_at:
                logger.error("%s: completion given up: %s", report.attempt, error.message)
                return False
            time.sleep(wait)
            tries += 1
    return True


def _send_one(send: Send, report: Report) -> TraceError | None:
    try:
        return send([report.body])[0]
    except TraceError as error:
        return error


class Completions:
    """A thread that reports; while one call is under way, further outcomes gather for the next."""

    def __init__(self, send: Send, settled: Callable[[Attempt], None]) -> None:
        self._send = send
        self._settled = settled
        self._waiting: list[Report] = []
        self._changed = threading.Condition()
        self._close_at: float | None = None
        self._thread = threading.Thread(target=self._loop, name="trace-completions", daemon=True)
        self._thread.start()

    def add(self, report: Report) -> None:
        with self._changed:
            self._waiting.append(report)
            self._changed.notify()

    def close(self, patience: float) -> None:
        """Report what is left for at most about `patience` seconds, then stop."""
        with self._changed:
            self._close_at = time.monotonic() + patience
            self._changed.notify()
        self._thread.join()

    def _loop(self) -> None:
        tries = 0
        while batch := self._take():
            again = self._report(batch)
            if not again:
                tries = 0
                continue
            with self._changed:
                self._waiting[:0] = again
                wait = delay(_BACKOFF_BASE, _BACKOFF_CAP, tries, random.random).total_seconds()
                if self._close_at is not None:
                    wait = min(wait, max(0.0, self._close_at - time.monotonic()))
                    if wait == 0:
                        logger.error("%s completions were not accepted", len(self._waiting))
                        return
            time.sleep(wait)
            tries = min(tries + 1, 10)

    def _take(self) -> list[Report]:
        with self._changed:
            while not self._waiting and self._close_at is None:
                self._changed.wait()
            batch: list[Report] = []
            size = 0
            for report in self._waiting[:_BATCH_MAX]:
                size += len(json.dumps(report.body))
                # One task twice in a call would make its answers ambiguous.
                repeated = any(report.attempt.task_id == each.attempt.task_id for each in batch)
                if batch and (size > _BATCH_BYTES or repeated):
                    break
                batch.append(report)
            del self._waiting[: len(batch)]
            return batch

    def _report(self, batch: Sequence[Report]) -> list[Report]:
        """Those that must be reported again."""
        again: list[Report] = []
        for report, answer in zip(batch, self._answers(batch), strict=True):
            try:
                following = follow_up(report, answer)
            except Unavailable as error:
                logger.warning("%s: completion not accepted yet: %s", report.attempt, error)
                following = report
            if following is None:
                self._settled(report.attempt)
            else:
                again.append(following)
        return again

    def _answers(self, batch: Sequence[Report]) -> list[TraceError | None]:
        try:
            return self._send([report.body for report in batch])
        except Rejected as error:
            if len(batch) == 1:
                return [error]
            # One bad body must not keep the others from being accepted.
            return [_send_one(self._send, report) for report in batch]
        except TraceError as error:
            return [error] * len(batch)
        except Exception as error:
            logger.exception("the completion call failed")
            return [Unavailable(str(error))] * len(batch)
