"""One changed value of a DAG file, and why it matters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trace_core.dag.problems import Path, field_name


class Effect(StrEnum):
    DATA = "affects data"
    RUN = "runs differently"
    ACCESS = "who may see it"
    NOTHING = "needs nothing"


class Kind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that is another one now; None stands for a value that is not there."""

    field: str
    """As people write it, inside its job or dataset: `config.chunk_size`."""
    old: Any
    new: Any
    effect: Effect
    path: Path
    """Where it stands: in the new file, or in the old one when it is gone."""

    @property
    def place(self) -> str:
        return field_name(self.path)


class Differ:
    """Collects the changed fields of one thing of the file."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.found: list[FieldChange] = []

    def compare(
        self, field: Path, old: Any, new: Any, effect: Effect, *, path: Path | None = None
    ) -> None:
        if not _same(old, new):
            where = path if path is not None else (*self.at, *field)
            self.found.append(FieldChange(field_name(field), old, new, effect, where))

    def compare_maps(self, field: Path, old: Any, new: Any, effect: Effect) -> None:
        """Key by key, as deep as both sides are maps."""
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            self.compare(field, old, new, effect)
            return
        for name in dict.fromkeys([*old, *new]):
            inner = (*field, name)
            if name in old and name in new:
                self.compare_maps(inner, old[name], new[name], effect)
            else:
                self.compare(inner, value_of(old, name), value_of(new, name), effect)


def value_of(values: Mapping[str, Any], name: str) -> Any:
    """An explicit null is a value, and is not the same as none at all."""
    return "null" if name in values and values[name] is None else values.get(name)


def _same(old: Any, new: Any) -> bool:
    # As JSON: for Python, 1 and 1.0 and true are the same.
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
