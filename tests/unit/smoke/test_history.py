"""The normal form of a history: what two runs of a DAG share, and nothing else."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from infra.smoke.history import differences, event_line, task_line


def row(**given: Any) -> SimpleNamespace:
    known = {
        "job": "measure",
        "scope": "p5-9",
        "revision": 0,
        "producer": "chunks",
        "producer_operator": "range_splitter",
        "producer_scope": "p0-19",
        "outcome": "Completed",
        "output_index": 0,
        "range_start": 5,
        "range_end": 9,
    }
    return SimpleNamespace(**known | given)


def test_a_task_says_what_made_it_and_how_it_ended() -> None:
    expected = "task measure p5-9 revision 0, made by chunks p0-19: Completed"
    assert task_line(row()) == expected
    for change in (
        {"job": "label"},
        {"scope": "p0-4"},
        {"revision": 1},
        {"producer": "ranges"},
        {"producer_scope": "p20-39"},
        {"outcome": "Failed"},
    ):
        assert task_line(row(**change)) != expected


def test_an_event_says_who_announced_what() -> None:
    expected = "event chunks p0-19 output 0: p5-9 revision 0 (5 to 9)"
    assert event_line(row()) == expected
    for change in (
        {"producer": "ranges"},
        {"producer_scope": "p20-39"},
        {"output_index": 1},
        {"scope": "p0-4"},
        {"revision": 1},
        {"range_end": 10},
    ):
        assert event_line(row(**change)) != expected


def test_the_one_task_of_a_source_was_made_by_nobody() -> None:
    line = task_line(row(job="follow", scope=None, producer=None, outcome="open"))
    assert line == "task follow of the source, made by the deploy: open"


def test_which_task_of_an_aggregator_was_last_is_left_out() -> None:
    first, second = (
        row(producer="ranges", producer_operator="range_aggregator", producer_scope=scope)
        for scope in ("c18", "c19")
    )
    assert task_line(first) == task_line(second)
    assert event_line(first) == event_line(second)


def test_equal_histories_have_no_differences_in_any_order() -> None:
    assert list(differences(Counter(["a", "b", "a"]), Counter(["b", "a", "a"]))) == []


def test_differences_name_the_side_and_count_how_often() -> None:
    found = list(differences(Counter(["a", "a", "b"]), Counter(["a", "b", "c"])))
    assert found == ["only in lite: a", "only in LocalStack: c"]


def test_many_differences_are_cut_short() -> None:
    found = list(differences(Counter(map(str, range(25))), Counter()))
    assert len(found) == 11
    assert found[-1] == "only in lite: 15 more"
