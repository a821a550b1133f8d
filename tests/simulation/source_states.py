"""Which operator state a source may find, from what its slices were told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from trace_core.tasks.api import Completion

_FRESH = {"next": 0, "rewrites": 0}


class SourceStates:
    def __init__(self) -> None:
        self._known: dict[UUID, list[Any]] = {}
        """The value that was written last, and those of which nobody knows whether they were."""

    def written(self, body: Completion, *, certain: bool) -> None:
        for entry in body.state:
            known = self._known.setdefault(body.task_id, [None])
            if certain:
                known[:] = [entry.value]
            else:
                known.append(entry.value)

    def may_be(self, task: UUID, value: Any) -> bool:
        return value in [_FRESH if each is None else each for each in self._known.get(task, [None])]

    def all(self) -> Iterator[tuple[UUID, list[Any]]]:
        yield from self._known.items()
