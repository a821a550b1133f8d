"""Named points around every commit and acknowledgement, at which a simulation may crash us.

Production code reaches them and nothing happens; the simulation owns what does.
"""

from __future__ import annotations

from collections.abc import Callable

CrashPoints = Callable[[str], None]
"""Called with the point's name, such as `complete:before_commit`; raises to crash there."""


def no_crash_points(_name: str) -> None:
    """Outside the simulation nothing happens at a named point."""
