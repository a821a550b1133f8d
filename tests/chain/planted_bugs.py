"""Bugs of the hot and the cold side, for fork fuzz to find: `make fork-fuzz PLANTED=1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from emr_jobs.operators import parquet_compact
from trace_core.registry import commits
from trace_core.storage import read_plan
from trace_core.storage.model import Entry, PinnedPart
from trace_core.storage.scopes import Range, joined

Plant = Callable[[pytest.MonkeyPatch], None]


def a_rewrite_takes_nothing_from_the_cold_part(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "take_from_colder", lambda *_: None)


def rows_that_changed_are_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "refuse_moved", lambda *_: None)


def both_parts_are_read_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_plan, "covered_ranges", lambda _: ())


def what_was_cut_hides_the_hot_rows(patch: pytest.MonkeyPatch) -> None:
    def all_of_it(parts: Sequence[PinnedPart]) -> tuple[Range, ...]:
        return joined(
            each.scope.range for part in parts for each in part.live_entries() if each.scope.range
        )

    patch.setattr(read_plan, "covered_ranges", all_of_it)


def what_was_cut_is_still_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "left_at", lambda self, _: (self.scope.range,))


def a_compaction_forgets_the_last_block(patch: pytest.MonkeyPatch) -> None:
    def within(rows: DataFrame, cursor: str, first: int, last: int) -> Any:
        return rows.where(F.col(cursor).between(first, last - 1))

    patch.setattr(parquet_compact, "within", within)


PLANTED: tuple[Plant, ...] = (
    a_rewrite_takes_nothing_from_the_cold_part,
    rows_that_changed_are_moved,
    both_parts_are_read_whole,
    what_was_cut_hides_the_hot_rows,
    what_was_cut_is_still_read,
    a_compaction_forgets_the_last_block,
)
