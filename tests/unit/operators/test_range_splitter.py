from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.operators.payloads import make_payload
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, OperatorFailed, Result, task_context
from trace_core.operators.configs import RangeSplitterConfig
from trace_core.operators.range_splitter import RangeSplitter, split

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(chunk_size: int, **trigger: Any) -> Result:
    payload = make_payload("range_splitter", trigger=trigger)
    return RangeSplitter().run(
        task_context(payload, RangeSplitterConfig(chunk_size=chunk_size), now=NOW)
    )


def test_chunks_are_aligned_clipped_and_carry_the_revision() -> None:
    result = run(10, start=5, end=24, partition_key="5-24", revision=3)
    assert result.events == [
        Emit(0, Scope.of_range(5, 9), 3),
        Emit(0, Scope.of_range(10, 19), 3),
        Emit(0, Scope.of_range(20, 24), 3),
    ]


def test_a_cursor_is_a_range_of_one() -> None:
    assert run(10, cursor=7).events == [Emit(0, Scope.of_range(7, 7))]


def test_an_event_without_a_range_is_refused() -> None:
    with pytest.raises(OperatorFailed, match="cursor or a range"):
        run(10, partition_key="europe")


def test_a_split_into_very_many_chunks_is_refused_before_it_is_made() -> None:
    with pytest.raises(OperatorFailed, match="larger chunks"):
        run(1, start=0, end=10**15)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 60))
def test_chunks_cover_the_range_exactly_and_never_cross_a_multiple(
    start: int, length: int, size: int
) -> None:
    chunks = list(split(start, start + length, size))
    covered = [value for first, last in chunks for value in range(first, last + 1)]
    assert covered == list(range(start, start + length + 1))
    assert all(first // size == last // size for first, last in chunks)
