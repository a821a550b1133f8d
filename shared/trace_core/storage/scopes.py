"""How scopes of one dataset version lie to each other.

All of it meets and covers everything. Ranges compare by their bounds; other partitions by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_core.kernel.scopes import Scope

WHOLE = Scope()
Range = tuple[int, int]
"""Cursors, inclusive at both ends."""
EVERY_CURSOR: Range = (-(2**63), 2**63 - 1)


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


def scope_name(scope: Scope) -> str:
    """The scope for people."""
    if scope.cursor is not None:
        return str(scope.cursor)
    return scope.partition_key or "(all of it)"


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same cursors in as few ranges as there can be, sorted."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> tuple[Range, ...]:
    """What is left of sorted ranges that do not meet."""
    left: list[Range] = []
    holes = joined(taken)
    for first, last in ranges:
        for start, end in holes:
            if end < first:
                continue
            if start > last:
                break
            if first < start:
                left.append((first, start - 1))
            first = end + 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


def inside(ranges: Sequence[Range], bounds: Range) -> tuple[Range, ...]:
    """What of sorted ranges lies in one range."""
    cut = ((max(start, bounds[0]), min(end, bounds[1])) for start, end in ranges)
    return tuple((start, end) for start, end in cut if start <= end)
