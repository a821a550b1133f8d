"""What an attempt's end says of its slot."""

from __future__ import annotations

from trace_core.egress.gateway import Opened
from trace_core.egress.usage import Fault
from trace_core.worker.outcome import HANDED_BACK, Outcome
from trace_core.worker.supervision import with_usage

IDLE = Outcome({"status": "Yielded", "outputs": []})


def used(*faults: Fault | None) -> Opened:
    opened = Opened()
    for fault in faults:
        opened.counter.add(fault, requests=1, errors=int(fault is not None))
    return opened


def test_a_slice_that_was_interrupted_does_not_clear_the_record_of_its_slot() -> None:
    assert "egress" not in with_usage(HANDED_BACK, used(None, Fault.TIMED_OUT)).fields
    # One that ended by itself does.
    assert with_usage(IDLE, used(None, Fault.TIMED_OUT)).fields["egress"]["fault"] is None


def test_a_slice_that_was_interrupted_while_nothing_was_answered_still_blames() -> None:
    reported = with_usage(HANDED_BACK, used(Fault.TIMED_OUT)).fields["egress"]
    assert (reported["fault"], reported["requests"]) == ("timed_out", 1)
