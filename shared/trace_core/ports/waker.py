"""Push: tell a function that there is work now, rather than at its next schedule."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Function(StrEnum):
    OUTBOX_RELAY = "outbox_relay"
    DISPATCHER = "dispatcher"


class Waker(Protocol):
    def wake(self, function: Function) -> None:
        """Ask for a run soon. Best effort and never raises: the schedule sweeps up what is lost."""
        ...
