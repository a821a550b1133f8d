"""Where operator code of `runtime: lambda` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class TaskRuntime(Protocol):
    """Starts runs; at-least-once, so a run must exchange its start token before it works."""

    def room(self) -> int:
        """How many more payloads it takes now; no more than that are reserved for it.

        One that does not know what it holds answers how many it takes at once: then whoever
        reserves keeps to a limit of its own.
        """
        ...

    def start(self, payload: Mapping[str, Any]) -> None:
        """Hand over one full task payload and return without waiting for the run.

        Raises `Unavailable` when the run could not be handed over (then it did not start or
        may have started: the start token decides), `Rejected` when it never can be.
        """
        ...
