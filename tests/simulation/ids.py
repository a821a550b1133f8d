"""Ids and wake-ups of the small worlds, in which every order is walked."""

from __future__ import annotations

from trace_core.ports.waker import Function


class Deaf:
    def wake(self, function: Function) -> None:
        """Every order of turns is walked anyway."""


class Bits:
    """Ids that depend on nothing but how many were asked for."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, bits: int) -> int:
        self._count += 1
        return self._count * 0x9E3779B97F4A7C15 % 2**bits
