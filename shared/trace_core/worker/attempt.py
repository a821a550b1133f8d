"""One attempt as the worker holds it: its payload, its fence, and a way to interrupt it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """What a claim or a start exchange gave."""

    payload: Mapping[str, Any]
    task_id: str
    attempt: int
    lease_sequence: int
    lease_token: str
    org_id: str
    is_source: bool
    timeout: float
    heartbeat: float

    @staticmethod
    def of(answer: Mapping[str, Any]) -> Attempt:
        """From a `Claimed` answer; the fence beside the task wins over the one inside it."""
        fence = {"attempt": answer["attempt"], "lease_token": answer["lease_token"]}
        payload = {**answer["task"], **fence}
        job = payload["job"]
        return Attempt(
            payload=payload,
            task_id=payload["task_id"],
            attempt=int(answer["attempt"]),
            lease_sequence=int(payload["lease_sequence"]),
            lease_token=answer["lease_token"],
            org_id=payload["org_id"],
            is_source=job["activation"] == "source",
            timeout=float(job["timeout_seconds"]),
            heartbeat=float(job["heartbeat_seconds"]),
        )

    @property
    def key(self) -> tuple[str, int]:
        """Tells a task's slices and attempts apart."""
        return self.task_id, self.lease_sequence

    @property
    def fence(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "attempt": self.attempt,
            "lease_token": self.lease_token,
        }

    def __str__(self) -> str:
        return f"task {self.task_id} attempt {self.attempt}"


class Reason(StrEnum):
    """Why an attempt is interrupted."""

    CANCELED = "canceled"
    STOPPED = "stopped"
    LEASE_LOST = "lease lost"


class RunControl:
    """Interrupts one run from another thread, also before it began or after it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None
        self.reason: Reason | None = None
        self.kill_at: float | None = None
        """On the monotonic clock."""

    def interrupt(self, reason: Reason, grace: float) -> None:
        """Ask the run to end, and kill it after `grace` seconds. The first reason stays."""
        with self._lock:
            kill_at = time.monotonic() + grace
            self.reason = self.reason or reason
            self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
            if self._wake:
                self._wake()

    def canceled(self) -> bool:
        """Whether the operator should stop; a stopping worker lets it finish instead."""
        return self.reason in (Reason.CANCELED, Reason.LEASE_LOST)

    def attach(self, wake: Callable[[], None]) -> None:
        """From now on, `wake` is called when there is something to see here."""
        with self._lock:
            self._wake = wake

    def detach(self) -> None:
        with self._lock:
            self._wake = None
