"""Announces the ranges that people asked for."""

from __future__ import annotations

from typing import Any

from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, Result, TaskContext
from trace_core.operators.configs import INT64_MAX, RangeRequestConfig

REQUESTS_PER_SLICE = 1000
"""What one completion may carry; the rest stays open for the next slice."""


class RangeRequest:
    """One range event for each request; its number is the revision, so that asking twice counts."""

    def run(self, task: TaskContext[RangeRequestConfig]) -> Result:
        events: list[Emit] = []
        taken: list[int] = []
        for each in sorted(task.requests, key=lambda each: each.number)[:REQUESTS_PER_SLICE]:
            taken.append(each.number)
            try:
                events.append(Emit(0, requested_range(each.request), each.number))
            except Invalid as error:
                # Taken all the same: it will not get better, and would be tried for ever.
                task.log.error("request %s is ignored: %s", each.number, error.message)
        return Result(events=events, requests_taken=taken)

    def check_request(self, request: Any) -> None:
        """Asked when the request is made, so that a bad one is refused to whoever makes it."""
        requested_range(request)


def requested_range(request: Any) -> Scope:
    """The range of a request; raises `Invalid`."""
    if not isinstance(request, dict) or set(request) != {"start", "end"}:
        raise Invalid('a request looks like {"start": 0, "end": 9999}')
    start, end = request["start"], request["end"]
    # A bool is an int to Python and a mistake to people.
    if type(start) is not int or type(end) is not int:
        raise Invalid("start and end must be whole numbers")
    if not 0 <= start <= end <= INT64_MAX:
        raise Invalid(f"{start}-{end} is no range: start comes first, and neither is negative")
    return Scope.of_range(start, end)
