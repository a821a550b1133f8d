"""Cuts a range into chunks, one event for each: the inverse of the aggregator."""

from __future__ import annotations

from collections.abc import Iterator

from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, OperatorFailed, Result, TaskContext
from trace_core.operators.configs import RangeSplitterConfig

CHUNKS_MAX = 100_000


class RangeSplitter:
    """Chunks lie on multiples of their size, so that any two inputs cut the same way."""

    def run(self, task: TaskContext[RangeSplitterConfig]) -> Result:
        bounds = task.trigger.scope.range if task.trigger else None
        if task.trigger is None or bounds is None:
            raise OperatorFailed("needs an event with a cursor or a range")
        start, end = bounds
        size = task.config.chunk_size
        count = end // size - start // size + 1
        if count > CHUNKS_MAX:
            raise OperatorFailed(
                f"{start}-{end} would give {count} chunks of {size}; "
                f"at most {CHUNKS_MAX} are allowed: use larger chunks"
            )
        return Result(
            events=[
                Emit(0, Scope.of_range(*chunk), task.trigger.revision)
                for chunk in split(start, end, size)
            ]
        )


def split(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of an inclusive range that lie in different multiples of `size`."""
    while start <= end:
        last = min(end, (start // size + 1) * size - 1)
        yield start, last
        start = last + 1
