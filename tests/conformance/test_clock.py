"""Every clock: UTC, and it goes on."""

from __future__ import annotations

from datetime import UTC, timedelta

from tests.conformance.harness import ClockHarness


def test_the_time_is_utc_and_never_naive(clocks: ClockHarness) -> None:
    assert clocks.clock.now().tzinfo is UTC


def test_the_time_goes_on(clocks: ClockHarness) -> None:
    before = clocks.clock.now()
    clocks.let_pass(timedelta(milliseconds=5))
    assert timedelta(milliseconds=4) <= clocks.clock.now() - before < timedelta(seconds=5)
