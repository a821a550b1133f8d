"""One life of an execution environment: a child and the Runtime API that serves it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .child import Child
from .runtime_api import (
    Invocation,
    Outcome,
    RuntimeApi,
    exit_message,
    failure,
)
from .sandbox import Sandbox


@dataclass(frozen=True)
class Report:
    """What came of an invocation, and what was printed since the last one."""

    outcome: Outcome
    output: str
    memory_mb: int


class Instance:
    """Usable until its initialisation fails, its time runs out, or its process ends."""

    def __init__(
        self, command: Sequence[str], sandbox: Sandbox, variables: dict[str, str], log: Path
    ) -> None:
        self._api = RuntimeApi()
        self._child = Child(
            command,
            environment=sandbox.environment(variables, self._api.address),
            folder=sandbox.code,
            log=log,
            on_exit=self._api.child_is_gone,
        )
        self._lock = threading.Lock()
        self._initialised = False
        self._init_error: Outcome | None = None
        self._timed_out = False
        self._memory_mb = 0

    @property
    def usable(self) -> bool:
        broken = self._init_error is not None or self._timed_out
        return not broken and self._child.exit_status is None

    @property
    def died_idle(self) -> bool:
        """Its process ended after an answer, so that no invocation was harmed."""
        return self._initialised and self._init_error is None and not self.usable

    def initialise(self, seconds: float) -> Outcome | None:
        """Wait for the handler's module to load; answers why it did not."""
        with self._lock:
            if not self._initialised:
                self._init_error = self._api.wait_until_ready(seconds)
                self._memory_mb = self._child.memory_mb()
                self._initialised = True
            return self._init_error

    def invoke(self, invocation: Invocation, seconds: float) -> Report:
        outcome = self._init_error or self._api.invoke(invocation, seconds)
        self._memory_mb = max(self._memory_mb, self._child.memory_mb())
        if outcome is None:
            outcome = self._unanswered(invocation, seconds)
        return Report(outcome, self._child.new_output(), self._memory_mb)

    def kill(self) -> None:
        self._child.kill()
        self._api.close()

    def _unanswered(self, invocation: Invocation, seconds: float) -> Outcome:
        status = self._child.exit_status
        who = f"RequestId: {invocation.request_id} Error:"
        if status is not None:
            return failure("Runtime.ExitError", f"{who} {exit_message(status)}")
        self._timed_out = True
        return failure("Sandbox.Timedout", f"{who} Task timed out after {seconds:.2f} seconds")
