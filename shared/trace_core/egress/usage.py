"""What went through the gateway: for one attempt, and for one upstream in this process."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Why the provider, and nobody else, is to blame for a request that came to nothing."""

    RATE_LIMITED = "rate_limited"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    REFUSED_KEY = "refused_key"
    SERVER_ERROR = "server_error"
    TOO_LARGE = "too_large"


@dataclass(frozen=True)
class Usage:
    requests: int = 0
    """Answered or given up; a retry is not another request."""
    retries: int = 0
    rate_limited: int = 0
    """Answers 429, those that a retry mended too."""
    errors: int = 0
    """Requests that were given up."""
    bytes: int = 0
    latency_ms: int = 0
    """Of all requests together, waits between tries included."""

    def fields(self) -> dict[str, int]:
        return asdict(self)


class Counter:
    """Adds up from several threads, and to the counters that it is a part of."""

    def __init__(self, *wholes: Counter) -> None:
        self._wholes = wholes
        self._lock = threading.Lock()
        # Plain numbers: this is done for each request, and making a `Usage` takes longer than most
        # of what a request needs.
        self._sums = Usage().fields()
        self._fault: Fault | None = None

    def add(self, fault: Fault | None, **more: int) -> None:
        """One request; `fault` says why it was given up."""
        with self._lock:
            for name, value in more.items():
                self._sums[name] += value
            self._fault = fault or self._fault
        for whole in self._wholes:
            whole.add(fault, **more)

    @property
    def usage(self) -> Usage:
        with self._lock:
            return Usage(**self._sums)

    @property
    def last_fault(self) -> Fault | None:
        """Why a request was given up, the last time that one was."""
        with self._lock:
            return self._fault
