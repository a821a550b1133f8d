"""How scopes of one dataset version lie to each other.

All of it meets and covers everything. Ranges compare by their bounds; other partitions by name.
"""

from __future__ import annotations

from trace_core.kernel.scopes import Scope

WHOLE = Scope()


def overlap(one: Scope, other: Scope) -> bool:
    if WHOLE.key in (one.key, other.key) or one.key == other.key:
        return True
    if one.range is None or other.range is None:
        return False
    return one.range[0] <= other.range[1] and other.range[0] <= one.range[1]


def covers(outer: Scope, inner: Scope) -> bool:
    """All of `inner` lies in `outer`."""
    if outer.key in (WHOLE.key, inner.key):
        return True
    if outer.range is None or inner.range is None:
        return False
    return outer.range[0] <= inner.range[0] and inner.range[1] <= outer.range[1]


def folder_name(scope: Scope) -> str:
    """The scope as one part of an object's key."""
    if scope.partition_key is not None:
        return scope.partition_key
    return "all" if scope.cursor is None else str(scope.cursor)
