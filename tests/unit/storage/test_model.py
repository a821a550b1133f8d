"""Pins, entries and scopes: what is later, what is valid, what replaces what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.storage.errors import PartialOverlap
from trace_core.storage.model import Cut, Entry, Pin, Taken, any_later, taken_by
from trace_core.storage.scopes import (
    WHOLE,
    Range,
    covers,
    folder_name,
    inside,
    joined,
    overlap,
    without,
)

ONE, OTHER = DatasetUuid(UUID(int=1)), DatasetUuid(UUID(int=2))
VERSION = DatasetVersion(UUID(int=3))

scopes = st.one_of(
    st.just(WHOLE),
    st.builds(Scope, cursor=st.integers(0, 12)),
    st.builds(Scope, partition_key=st.sampled_from(["eu", "us"])),
    st.tuples(st.integers(0, 12), st.integers(0, 6)).map(
        lambda each: Scope.of_range(each[0], each[0] + each[1])
    ),
)


def pin(number: int, swap: int = 1, dataset: DatasetUuid = ONE) -> Pin:
    return Pin(dataset, VERSION, number, swap)


def entry(number: int, scope: Scope, replaced_at: int | None = None) -> Entry:
    return Entry(number, replaced_at, scope, ())


def test_a_swap_is_later_than_any_commit_before_it() -> None:
    assert pin(6).later_than(pin(5))
    assert not pin(5).later_than(pin(5))
    assert pin(1, swap=2).later_than(pin(99))
    assert not pin(99).later_than(pin(1, swap=2))
    with pytest.raises(ValueError, match="two datasets"):
        pin(1).later_than(pin(1, dataset=OTHER))


def test_only_inputs_that_both_have_are_compared() -> None:
    assert any_later([pin(9, dataset=OTHER), pin(6)], [pin(5)])
    assert not any_later([pin(9, dataset=OTHER), pin(5)], [pin(5)])
    assert not any_later([], [pin(1)])
    assert not any_later([pin(1)], [])


@given(st.integers(0, 2**60), st.integers(0, 2**30))
def test_a_pin_survives_its_fields(number: int, swap: int) -> None:
    assert Pin.parse(pin(number, swap).fields()) == pin(number, swap)


def test_an_entry_is_valid_up_to_the_commit_that_replaced_it() -> None:
    found = [entry(3, WHOLE, 5).valid_at(number) for number in range(2, 7)]
    assert found == [False, True, True, False, False]
    assert entry(3, WHOLE).valid_at(99)


@given(scopes, scopes)
def test_overlap_has_no_direction_and_covering_implies_it(one: Scope, other: Scope) -> None:
    assert overlap(one, other) is overlap(other, one)
    assert overlap(one, one) and covers(one, one)
    assert covers(WHOLE, one)
    if covers(one, other):
        assert overlap(one, other)


def test_a_cursor_is_a_range_of_one() -> None:
    assert overlap(Scope(cursor=5), Scope.of_range(0, 9))
    assert covers(Scope.of_range(0, 9), Scope(cursor=9))
    assert not overlap(Scope(cursor=10), Scope.of_range(0, 9))
    assert not overlap(Scope(partition_key="eu"), Scope(cursor=5))


def test_folders_name_the_scope() -> None:
    assert folder_name(Scope.of_range(0, 9)) == "0-9"
    assert folder_name(Scope(cursor=7)) == "7"
    assert folder_name(WHOLE) == "all"


@given(st.lists(scopes, max_size=8), scopes)
def test_a_replace_closes_all_that_it_meets_or_nothing(live: list[Scope], scope: Scope) -> None:
    entries = [entry(number, each) for number, each in enumerate(live, start=1)]
    met = tuple(each for each in entries if overlap(each.scope, scope))
    if all(covers(scope, each.scope) for each in met):
        assert taken_by(entries, scope) == Taken(met, ())
    else:
        with pytest.raises(PartialOverlap):
            taken_by(entries, scope)


def test_rows_with_cursors_of_their_own_are_taken_one_by_one() -> None:
    old = Entry(1, None, Scope.of_range(0, 9), (), "number")
    assert taken_by([old], Scope.of_range(4, 12)) == Taken((), (old,))
    cut = replace(old, cuts=(Cut(2, 4, 12), Cut(5, 0, 1)))
    assert [cut.left_at(number) for number in (1, 2, 5)] == [
        ((0, 9),),
        ((0, 3),),
        ((2, 3),),
    ]
    assert taken_by([cut], Scope.of_range(5, 9)) == Taken((), ())
    assert taken_by([cut], Scope.of_range(2, 3)) == Taken((cut,), ())
    assert taken_by([cut], Scope(cursor=3)) == Taken((), (cut,))


ranges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=6).map(
    lambda found: [(start, start + length) for start, length in found]
)


@given(ranges, ranges, st.tuples(st.integers(0, 20), st.integers(0, 8)))
def test_ranges_are_sets_of_cursors(
    one: list[Range], other: list[Range], bounds: tuple[int, int]
) -> None:
    def cursors(found: Iterable[Range]) -> set[int]:
        return {cursor for start, end in found for cursor in range(start, end + 1)}

    window = (bounds[0], bounds[0] + bounds[1])
    assert cursors(joined(one)) == cursors(one)
    assert cursors(without(joined(one), other)) == cursors(one) - cursors(other)
    assert cursors(inside(joined(one), window)) == cursors(one) & cursors([window])
    apart = without(joined(one), other)
    assert all(before[1] < after[0] for before, after in pairwise(apart))
