"""Random histories of a relation of three parts, against a plain model of what readers get."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tests.commit_world import CommitWorld
from tests.hot_cold_world import History, HotColdWorld
from tests.postgres.data_world import DataWorld
from trace_core.registry import commits
from trace_core.registry.relations import Relations
from trace_core.storage import postgres_output, read_plan
from trace_core.storage.model import Entry, PinnedPart
from trace_core.storage.scopes import Range, joined


@pytest.fixture
def real(commit_world: CommitWorld, data_world: DataWorld) -> HotColdWorld:
    return HotColdWorld(commit_world, data_world.data)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_no_reader_sees_a_row_twice_or_misses_one(real: HotColdWorld, seed: int) -> None:
    """Of each pin count and rows stay what they were; those of the newest are the model's."""
    History(real, random.Random(seed)).run(60)  # noqa: S311


# Planted bugs ---------------------------------------------------------------------------------


def _nothing_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "take_from_colder", lambda *_: None)


def _changed_rows_are_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "refuse_moved", lambda *_: None)


def _a_colder_part_hides_what_it_lost(patch: pytest.MonkeyPatch) -> None:
    def all_of_it(parts: Sequence[PinnedPart]) -> tuple[Range, ...]:
        return joined(
            each.scope.range for part in parts for each in part.live_entries() if each.scope.range
        )

    patch.setattr(read_plan, "covered_ranges", all_of_it)


def _every_part_is_read_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_plan, "covered_ranges", lambda _: ())


def _what_was_cut_is_still_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "left_at", lambda self, _: (self.scope.range,))


def _stale_followers_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(postgres_output, "_check_fence", lambda *_: None)


def _hot_is_taken_for_cold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Relations, "colder", Relations.hotter)


@pytest.mark.parametrize(
    "plant",
    [
        _nothing_is_taken, _changed_rows_are_moved, _a_colder_part_hides_what_it_lost,
        _every_part_is_read_whole, _what_was_cut_is_still_read,
        _stale_followers_write,
        _hot_is_taken_for_cold,
    ],
    ids=lambda plant: plant.__name__.strip("_"),
)  # fmt: skip
def test_a_planted_bug_is_found(
    real: HotColdWorld, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        History(real, random.Random(0)).run(150)  # noqa: S311
