"""What LocalStack creates "as a fallback": a resource in name only, with nothing behind it.

Every such type has a reason here. One that is not listed fails the smoke, since the deploy then
proves less than it seems to; one that is listed and no longer occurs fails it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ALLOWED: Mapping[str, str] = {}
"""Resource type -> why the smoke does without it. Empty: everything of `local` is real."""
_WORD = "fallback"


def fallbacks(events: Iterable[Mapping[str, Any]]) -> set[str]:
    """The types that stack events call a fallback."""
    return {
        event["ResourceType"]
        for event in events
        if _WORD in event.get("ResourceStatusReason", "").lower()
    }


def problems(found: set[str], allowed: Mapping[str, str] = ALLOWED) -> Iterator[str]:
    for kind in sorted(found - allowed.keys()):
        yield f"LocalStack created {kind} as a fallback: make it real, or list it with a reason"
    for kind in sorted(allowed.keys() - found):
        yield f"LocalStack no longer creates {kind} as a fallback: take it off the list"
