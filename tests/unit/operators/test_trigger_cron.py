from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.operators.payloads import make_payload
from trace_core.kernel.ids import uuid7
from trace_core.operators.api import OperatorFailed, Result, task_context
from trace_core.operators.configs import TriggerCronConfig
from trace_core.operators.trigger_cron import TriggerCron

MADE = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
TASK: UUID = uuid7(MADE, lambda bits: 0)


class Source:
    """A cron source over its slices, with its state kept as the platform keeps it."""

    def __init__(
        self,
        schedule: str | None,
        catch_up: Literal["latest", "all"] = "all",
        max_catch_up: int = 10_000,
    ) -> None:
        self.config = TriggerCronConfig(catch_up=catch_up, max_catch_up=max_catch_up)
        self.job = {"activation": "source", "source_kind": "cron", "schedule": schedule}
        self.state: list[dict[str, Any]] = []
        self.ticks: list[int] = []

    def slice(self, now: datetime) -> Result:
        payload = make_payload("trigger_cron", job=self.job, task_id=str(TASK), state=self.state)
        result = TriggerCron().run(task_context(payload, self.config, now=now))
        for key, value in result.state.items():
            self.state = [{"key": key, "revision": 1, "value": value}]
        self.ticks.extend(emit.scope.cursor or 0 for emit in result.events)
        return result

    def slices(self, moments: Sequence[datetime]) -> list[int]:
        for now in moments:
            self.slice(now)
        return self.ticks


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def seconds(*texts: str) -> list[int]:
    return [int(at(text).timestamp()) for text in texts]


def test_a_new_source_fires_neither_for_the_past_nor_too_late() -> None:
    source = Source("* * * * *")
    assert source.slices([MADE]) == []
    assert source.slices([at("2026-03-01T12:01:00")]) == seconds("2026-03-01T12:01:00")


def test_a_tick_at_this_very_second_counts_and_is_not_repeated() -> None:
    source = Source("*/5 * * * *")
    now = at("2026-03-01T12:05:00")
    assert source.slices([now, now, now + timedelta(seconds=59)]) == seconds("2026-03-01T12:05:00")


def test_latest_fires_once_after_a_pause() -> None:
    source = Source("* * * * *", catch_up="latest")
    assert source.slices([at("2026-03-08T00:00:20")]) == seconds("2026-03-08T00:00:00")


def test_all_fires_the_newest_missed_times_up_to_the_limit_oldest_first() -> None:
    source = Source("0 * * * *", max_catch_up=2)
    assert source.slices([at("2026-03-01T23:30:00")]) == seconds(
        "2026-03-01T22:00:00", "2026-03-01T23:00:00"
    )


def test_a_pause_of_years_costs_no_more_than_the_limit() -> None:
    source = Source("* * * * *", max_catch_up=3)
    assert len(source.slices([at("2126-01-01T00:00:00")])) == 3


def test_a_clock_that_went_back_repeats_nothing() -> None:
    source = Source("* * * * *")
    source.slices([at("2026-03-01T12:10:00")])
    assert source.slice(at("2026-03-01T12:03:00")) == Result()


def test_a_source_without_a_schedule_is_refused() -> None:
    with pytest.raises(OperatorFailed, match="schedule"):
        Source(None).slice(MADE)


@settings(max_examples=60)
@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 */3 * * *", "30 4 * * 1-5"]),
    st.lists(st.integers(0, 3 * 24 * 3600 * 1000), min_size=1, max_size=12),
)
def test_no_tick_is_lost_or_repeated_however_the_slices_fall(
    schedule: str, offsets: list[int]
) -> None:
    moments = [MADE + timedelta(milliseconds=offset) for offset in offsets]
    ticks = Source(schedule).slices(moments)
    whole = Source(schedule).slices([max(moments)])
    assert ticks == whole
    assert ticks == sorted(set(ticks))
    assert all(MADE.timestamp() < tick <= max(moments).timestamp() for tick in ticks)
