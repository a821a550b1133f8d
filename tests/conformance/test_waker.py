"""Every waker: a push soon after, to the function that was meant, and never an error."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.harness import WakerHarness, becomes
from trace_core.ports.waker import Function

SOON = timedelta(milliseconds=100)


@pytest.mark.parametrize("function", Function)
def test_the_function_that_was_meant_is_woken(wakers: WakerHarness, function: Function) -> None:
    wakers.waker.wake(function)
    assert wakers.was_woken(function, wakers.patience)
    for other in Function:
        assert not wakers.was_woken(other, SOON)


def test_nobody_is_woken_without_a_wake_up(wakers: WakerHarness) -> None:
    assert not any(wakers.was_woken(function, SOON) for function in Function)


def test_many_wake_ups_are_no_more_than_many_runs(wakers: WakerHarness) -> None:
    for _ in range(20):
        wakers.waker.wake(Function.DISPATCHER)
    assert wakers.was_woken(Function.DISPATCHER, wakers.patience)


def test_a_wake_up_during_an_outage_is_lost_without_an_error(wakers: WakerHarness) -> None:
    wakers.waker.wake(Function.DISPATCHER)
    assert wakers.was_woken(Function.DISPATCHER, wakers.patience)
    with wakers.outage():
        wakers.waker.wake(Function.DISPATCHER)

    def woken_again() -> bool:
        wakers.waker.wake(Function.OUTBOX_RELAY)
        return wakers.was_woken(Function.OUTBOX_RELAY, SOON)

    assert becomes(woken_again, wakers.patience)
