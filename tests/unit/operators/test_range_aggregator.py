from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, Event, OperatorFailed
from trace_core.operators.configs import RangeAggregatorConfig
from trace_core.operators.range_aggregator import RangeAggregator, merge
from trace_core.operators.range_splitter import split


def config(range_size: int = 10, finality_depth: int = 0) -> RangeAggregatorConfig:
    return RangeAggregatorConfig(
        cursor="block_number", range_size=range_size, finality_depth=finality_depth
    )


def cursor(value: int, revision: int = 0) -> Event:
    return Event(Scope(cursor=value), revision)


def span(start: int, end: int, revision: int = 0) -> Event:
    return Event(Scope.of_range(start, end), revision)


class Platform:
    """Keeps state rows the way the Dispatcher does: as JSON, only those the operator names."""

    def __init__(self, settings: RangeAggregatorConfig) -> None:
        self.settings = settings
        self.rows: dict[str, str] = {}
        self.events: list[Emit] = []

    def feed(self, events: Iterable[Event]) -> Platform:
        for event in events:
            self.one(event)
        return self

    def one(self, event: Event) -> list[Emit]:
        keys = RangeAggregator().keys(self.settings, event)
        states: dict[str, Any] = {
            key: json.loads(self.rows[key]) for key in keys if key in self.rows
        }
        reduction = RangeAggregator().reduce(self.settings, states, event)
        assert set(reduction.states) <= set(keys)
        self.rows.update({key: json.dumps(value) for key, value in reduction.states.items()})
        self.events.extend(reduction.events)
        return list(reduction.events)

    @property
    def manifests(self) -> dict[str, int]:
        """The last announcement of each range; announcements of one range only ever rise."""
        found: dict[str, int] = {}
        for emit in self.events:
            assert emit.revision > found.get(emit.scope.key, -1)
            found[emit.scope.key] = emit.revision
        return found


def test_a_range_is_announced_once_with_its_last_missing_cursor() -> None:
    platform = Platform(config(range_size=3))
    assert platform.one(cursor(3)) == []
    assert platform.one(cursor(5)) == []
    assert platform.one(cursor(4)) == [Emit(0, Scope.of_range(3, 5), 0)]
    assert platform.one(cursor(4)) == []


def test_a_complete_range_waits_until_the_head_is_far_enough() -> None:
    platform = Platform(config(range_size=2, finality_depth=3))
    platform.feed([cursor(0), cursor(1), cursor(3)])
    assert platform.events == []
    assert platform.one(cursor(4)) == [Emit(0, Scope.of_range(0, 1), 0)]


def test_a_range_event_may_span_several_ranges() -> None:
    platform = Platform(config(range_size=10)).feed([span(5, 34), span(0, 4)])
    assert list(platform.manifests) == ["p10-19", "p20-29", "p0-9"]


def test_a_rewrite_of_one_input_is_announced_however_far_another_one_has_come() -> None:
    platform = Platform(config(range_size=2))
    platform.feed([Event(Scope(cursor=0), 30, source="other")])
    assert [emit.revision for emit in platform.one(Event(Scope(cursor=1), 4))] == [34]
    assert [emit.revision for emit in platform.one(Event(Scope(cursor=1), 9))] == [39]
    assert platform.one(Event(Scope(cursor=1), 9)) == []
    assert [e.revision for e in platform.one(Event(Scope(cursor=0), 31, source="other"))] == [40]


def test_a_rewrite_of_an_announced_range_announces_it_again_with_its_revision() -> None:
    platform = Platform(config(range_size=2)).feed([cursor(0), cursor(1)])
    assert platform.one(cursor(1, revision=7)) == [Emit(0, Scope.of_range(0, 1), 7)]
    assert platform.one(cursor(1, revision=7)) == []
    assert platform.one(cursor(0, revision=6)) == []
    assert platform.one(cursor(0, revision=8)) == [Emit(0, Scope.of_range(0, 1), 8)]


def test_a_rewrite_before_finality_is_part_of_the_first_announcement() -> None:
    platform = Platform(config(range_size=2, finality_depth=2))
    platform.feed([cursor(0), cursor(1), cursor(0, revision=4)])
    assert platform.one(cursor(3)) == [Emit(0, Scope.of_range(0, 1), 4)]


def test_an_event_without_a_range_is_refused_for_good() -> None:
    with pytest.raises(OperatorFailed, match="cursor or a range") as caught:
        RangeAggregator().keys(config(), Event(Scope(partition_key="europe")))
    assert not caught.value.retryable


def test_an_input_over_too_many_ranges_is_refused_with_advice() -> None:
    with pytest.raises(OperatorFailed, match="split it first"):
        RangeAggregator().keys(config(range_size=1), span(0, 10**9))


def test_a_task_touches_the_head_and_its_own_range_only() -> None:
    assert RangeAggregator().keys(config(), cursor(123_456)) == ["head", "range:12345"]


def test_rows_stay_small_however_long_the_history_is() -> None:
    platform = Platform(config(range_size=10, finality_depth=25))
    platform.feed(cursor(value) for value in range(3000))
    assert max(len(row) for row in platform.rows.values()) < 100
    assert len(platform.events) == 297


inputs = st.lists(
    st.one_of(
        st.builds(cursor, st.integers(0, 40), st.integers(0, 3)),
        st.builds(
            lambda start, length, revision: span(start, start + length, revision),
            st.integers(0, 40),
            st.integers(0, 25),
            st.integers(0, 3),
        ),
    ),
    max_size=40,
)
settings = st.builds(config, st.integers(1, 12), st.integers(0, 15))


@given(settings, inputs, st.randoms(use_true_random=False))
def test_any_order_and_any_duplicates_give_the_same_manifests(
    settings: RangeAggregatorConfig, events: list[Event], order: random.Random
) -> None:
    again = [*events, *order.choices(events, k=len(events))] if events else []
    order.shuffle(again)
    first, second = Platform(settings).feed(events), Platform(settings).feed(again)
    assert first.manifests == second.manifests
    assert first.rows == second.rows


@given(settings, inputs)
def test_manifests_are_what_the_definition_says(
    settings: RangeAggregatorConfig, events: list[Event]
) -> None:
    present: dict[int, int] = {}
    for event in events:
        start, end = event.scope.range or (0, -1)
        for value in range(start, end + 1):
            present[value] = max(present.get(value, 0), event.revision)
    size, head = settings.range_size, max(present, default=-1)
    expected: dict[str, int] = {}
    for start in range(0, head + 1, size):
        values = range(start, start + size)
        if all(v in present for v in values) and head >= values[-1] + settings.finality_depth:
            expected[Scope.of_range(start, values[-1]).key] = max(present[v] for v in values)
    manifests = Platform(settings).feed(events).manifests
    # An input may belong to two ranges or cover one partly, and its revision counts for each.
    assert manifests == expected


@given(settings, inputs)
def test_a_rewrite_of_any_announced_cursor_announces_its_range_again(
    settings: RangeAggregatorConfig, events: list[Event]
) -> None:
    platform = Platform(settings).feed(events)
    for key, revision in platform.manifests.items():
        start = int(key[1:].split("-")[0])
        assert [emit.revision for emit in platform.one(cursor(start, revision + 1))] == [
            revision + 1
        ]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 200))
def test_splitting_what_was_aggregated_gives_the_input_back(
    range_size: int, chunk_size: int, count: int
) -> None:
    platform = Platform(config(range_size)).feed(cursor(value) for value in range(count))
    values = [
        value
        for emit in platform.events
        for start, end in split(*(emit.scope.range or (0, 0)), chunk_size)
        for value in range(start, end + 1)
    ]
    assert values == list(range(count - count % range_size))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=20))
def test_merged_pieces_hold_the_same_values_and_do_not_touch(
    pieces: list[tuple[int, int]],
) -> None:
    merged: list[tuple[int, int]] = []
    expected: set[int] = set()
    for start, length in pieces:
        merged = merge(merged, (start, start + length))
        expected.update(range(start, start + length + 1))
    assert {value for start, end in merged for value in range(start, end + 1)} == expected
    assert all(left[1] + 1 < right[0] for left, right in pairwise(merged))
