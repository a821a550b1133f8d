"""What the data database has recorded of commits that somebody reports.

Needs no Arrow, so that whoever only registers commits does without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.data import DataDatabase
from trace_core.database.sql import Statements

_SQL = Statements("trace_core.storage", "recorded.sql")


@dataclass(frozen=True)
class Recorded:
    dataset_version: UUID
    number: int
    task_id: UUID
    attempt: int
    lease_sequence: int
    output_index: int
    scope: str
    replaces: int


class RecordedCommits:
    def __init__(self, data: Callable[[], DataDatabase]) -> None:
        """It is opened when somebody reports such a commit."""
        self._data = data

    def __call__(self, wanted: Sequence[tuple[UUID, int]]) -> set[Recorded]:
        """Those that there are."""
        given = {
            "versions": Uuids([version for version, _ in wanted]),
            "numbers": Bigints([number for _, number in wanted]),
        }
        return {Recorded(*row) for row in self._data().read(_SQL["recorded"], given)}
