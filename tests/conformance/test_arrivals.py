"""Every way of hearing of messages: answers in time, and never lets a caller wait in vain."""

from __future__ import annotations

import time
from datetime import timedelta

from tests.conformance.harness import ArrivalsHarness

SOON = timedelta(milliseconds=300)
LONG = timedelta(seconds=20)


def test_a_caller_who_has_seen_nothing_is_answered_at_once(arrivals: ArrivalsHarness) -> None:
    started = time.monotonic()
    arrivals.arrivals.next("mine", None, LONG)
    assert time.monotonic() - started < 2


def test_a_wait_ends_in_time(arrivals: ArrivalsHarness) -> None:
    seen = arrivals.settled("mine")
    started = time.monotonic()
    assert arrivals.arrivals.next("mine", seen, SOON) == seen
    assert time.monotonic() - started < 2


def test_what_arrived_since_is_heard_at_once_or_the_caller_polls(
    arrivals: ArrivalsHarness,
) -> None:
    seen = arrivals.settled("mine")
    arrivals.send("mine")
    found = arrivals.arrivals.next("mine", seen, LONG)
    assert found is None if seen is None else found not in (None, seen)


def test_what_arrived_for_another_queue_ends_no_wait(arrivals: ArrivalsHarness) -> None:
    seen = arrivals.settled("mine")
    arrivals.send("others")
    assert arrivals.arrivals.next("mine", seen, SOON) == seen
