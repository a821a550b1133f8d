"""Announces a range of cursors once all of it has arrived and is final.

State: the row `head` holds the highest cursor seen and the complete ranges that are not final yet;
the row of a range holds what has arrived of it, and once it is complete only its revisions. So a
task touches `head` and its own ranges, however much has gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, Event, OperatorFailed, Reduction
from trace_core.operators.configs import RangeAggregatorConfig

HEAD = "head"
RANGES_PER_EVENT_MAX = 10_000
INTERVALS_MAX = 20_000
"""Separate pieces of one range; more would not fit a state row."""

Interval = tuple[int, int]


class RangeAggregator:
    """The same manifests for any order of the inputs, and for inputs that come twice.

    Of each input the highest revision counts, and a range's revision is their sum. Revisions are
    commit numbers, each input having its own, which grow with every rewrite: so a rewrite of any
    input raises the sum, whatever the others have come to, and the range is announced again.
    """

    def keys(self, config: RangeAggregatorConfig, event: Event) -> list[str]:
        start, end = _bounds(event)
        return [HEAD, *(_key(index) for index in _indexes(config, start, end))]

    def reduce(
        self, config: RangeAggregatorConfig, states: Mapping[str, Any], event: Event
    ) -> Reduction:
        start, end = _bounds(event)
        head_row = states.get(HEAD) or {"head": None, "waiting": {}}
        head = end if head_row["head"] is None else max(head_row["head"], end)
        # Complete ranges that wait for the head, by index; few, since the head bounds them.
        waiting = {int(index): revision for index, revision in head_row["waiting"].items()}
        announced: dict[int, int] = {}
        changed: dict[str, Any] = {}

        for index in _indexes(config, start, end):
            before = states.get(_key(index))
            after = _add(config, index, before, (start, end), event)
            if after == before:
                continue
            changed[_key(index)] = after
            if "present" not in after:
                waiting[index] = sum(after["revisions"].values())

        for index in sorted(waiting):
            if (index + 1) * config.range_size - 1 + config.finality_depth <= head:
                announced[index] = waiting.pop(index)

        head_after = {"head": head, "waiting": {str(i): waiting[i] for i in sorted(waiting)}}
        if head_after != states.get(HEAD):
            changed[HEAD] = head_after
        return Reduction(
            states=changed,
            events=[Emit(0, _scope(config, i), revision) for i, revision in announced.items()],
        )


def merge(intervals: list[Interval], new: Interval) -> list[Interval]:
    """The same cursors with `new` among them, as sorted pieces that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted([*intervals, new]):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _add(
    config: RangeAggregatorConfig, index: int, row: Any, new: Interval, event: Event
) -> dict[str, Any]:
    row = row or {"revisions": {}, "present": []}
    revisions = row["revisions"]
    latest = max(revisions.get(event.source, 0), event.revision)
    revisions = {**revisions, event.source: latest}
    if "present" not in row:
        return {"revisions": revisions}
    first, last = index * config.range_size, (index + 1) * config.range_size - 1
    present = merge(
        [(start, end) for start, end in row["present"]], (max(first, new[0]), min(last, new[1]))
    )
    if present == [(first, last)]:
        return {"revisions": revisions}
    if len(present) > INTERVALS_MAX:
        raise OperatorFailed(
            f"range {first}-{last} has arrived in more than {INTERVALS_MAX} separate pieces",
            retryable=True,
        )
    return {"revisions": revisions, "present": [list(each) for each in present]}


def _bounds(event: Event) -> Interval:
    if event.scope.range is None:
        raise OperatorFailed(
            f"needs events with a cursor or a range, not the scope {event.scope.key!r}"
        )
    return event.scope.range


def _indexes(config: RangeAggregatorConfig, start: int, end: int) -> range:
    indexes = range(start // config.range_size, end // config.range_size + 1)
    if len(indexes) > RANGES_PER_EVENT_MAX:
        raise OperatorFailed(
            f"the input {start}-{end} covers {len(indexes)} ranges of {config.range_size}; "
            f"at most {RANGES_PER_EVENT_MAX} are allowed: split it first, or use larger ranges"
        )
    return indexes


def _key(index: int) -> str:
    return f"range:{index}"


def _scope(config: RangeAggregatorConfig, index: int) -> Scope:
    return Scope.of_range(index * config.range_size, (index + 1) * config.range_size - 1)
