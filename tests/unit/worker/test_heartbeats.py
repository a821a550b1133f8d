from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from trace_core.kernel.errors import StaleAttempt
from trace_core.worker.attempt import Attempt, RunControl
from trace_core.worker.heartbeats import Heartbeats


def attempt() -> Attempt:
    return Attempt({}, "task", 1, 1, "token", "org", True, timeout=10, heartbeat=0.01)


@pytest.mark.parametrize("ending", [True, False])
def test_a_beat_that_crosses_the_report_is_no_lost_lease(
    ending: bool, caplog: pytest.LogCaptureFixture
) -> None:
    underway, answer, beaten = threading.Event(), threading.Event(), threading.Event()

    def beat(_fence: Mapping[str, Any]) -> str:
        underway.set()
        answer.wait(5)
        beaten.set()
        raise StaleAttempt

    heartbeats, control, running = Heartbeats(beat, 1.0), RunControl(), attempt()
    with caplog.at_level(logging.WARNING):
        heartbeats.add(running, control)
        assert underway.wait(5)
        if ending:
            heartbeats.ending(running)
        answer.set()
        assert beaten.wait(5)
        heartbeats.remove(running)
        heartbeats.close()
    assert ("no longer ours" in caplog.text) is not ending
