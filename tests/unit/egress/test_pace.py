"""When requests go, by a clock that stands still meanwhile."""

from __future__ import annotations

import pytest

from trace_core.egress.model import Limits
from trace_core.egress.pace import Overdue, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.went: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.went[-1] += seconds

    def go(self, pace: Pace, count: int, seconds: float = 60.0) -> list[float]:
        """How many seconds from now each of so many requests goes."""
        self.went = []
        for _ in range(count):
            self.went.append(0.0)
            with pace.turn(self.now + seconds):
                pass
        return [round(each, 6) for each in self.went]


def paced(clock: Clock, rate: float | None) -> Pace:
    limits = Limits(requests_per_second=rate)
    return Pace(limits, monotonic=clock.monotonic, sleep=clock.sleep)


def test_a_seconds_worth_goes_at_once_and_the_rest_evenly() -> None:
    clock = Clock()
    pace = paced(clock, 4)
    assert clock.go(pace, 7) == [0, 0, 0, 0, 0.25, 0.5, 0.75]
    clock.now += 2.75
    # All is free again a second after the last one went.
    assert clock.go(pace, 5) == [0, 0, 0, 0, 0.25]


def test_after_a_rest_no_more_go_at_once_than_before_it() -> None:
    clock = Clock()
    pace = paced(clock, 4)
    pace.hold_back(10)
    assert clock.go(pace, 7) == [10, 10, 10, 10, 10.25, 10.5, 10.75]


def test_a_rest_that_is_asked_for_meanwhile_is_kept_by_those_who_wait_already() -> None:
    now, waits = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            pace.hold_back(5)
        now[0] += seconds

    pace = Pace(Limits(requests_per_second=1), monotonic=lambda: now[0], sleep=sleep)
    for _ in range(2):
        with pace.turn(200.0):
            pass
    assert now[0] >= 105
    assert waits[0] == 1


def test_a_rest_is_kept_without_a_rate_too() -> None:
    clock = Clock()
    pace = paced(clock, None)
    pace.hold_back(3)
    assert clock.go(pace, 3) == [3, 3, 3]
    clock.now += 3
    assert clock.go(pace, 2) == [0, 0]


def test_what_comes_too_late_takes_nobodys_turn() -> None:
    clock = Clock()
    pace = paced(clock, 0.5)
    assert clock.go(pace, 1) == [0]
    for _ in range(3):
        with pytest.raises(Overdue):
            clock.go(pace, 1, seconds=1.0)
    assert clock.go(pace, 1) == [2]
