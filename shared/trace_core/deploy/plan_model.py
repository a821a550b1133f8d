"""A plan: what an edit of a DAG file means, as one value that is shown, kept and compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from trace_core.dag.field_changes import Effect

_NOT_COMPARED = frozenset({"estimate", "total", "missed", "state_token", "warnings", "line"})
"""Figures move while the platform works, and lines while comments are written."""


class Action(StrEnum):
    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REUSED = "reused"


class DatasetAction(StrEnum):
    PUBLISHED = "published"
    HIDDEN = "hidden"
    RENAMED = "renamed"
    CHANGED = "changed"
    """What is said about it, or which parts it has."""
    REBUILT = "rebuilt"
    """Only the rows behind the name."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed value of the file."""

    field: str
    old: Any
    new: Any
    effect: Effect
    place: str
    line: int | None


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """Nothing in a figure means that it is not known."""

    partitions: int | None
    rows: int | None
    bytes: int | None
    seconds: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Total:
    partitions: int | None
    rows: int | None
    bytes: int | None
    seconds: float | None
    at_least: tuple[str, ...]
    """Figures that leave out jobs for which they are not known."""
    longest_path: tuple[str, ...]
    basis: str


@dataclass(frozen=True, slots=True)
class JobPlan:
    name: str
    action: Action
    fingerprint: str | None
    active_fingerprint: str | None
    edited: bool
    """Its own definition or code changed; otherwise only what it reads."""
    because: tuple[str, ...]
    """From an edited job to this one, for a job that is downstream."""
    edits: tuple[Edit, ...]
    rebuilds: bool
    runs: bool
    """False for a rebuild without work: all its outputs are buffered, or it has none."""
    buffered: tuple[str, ...]
    """Outputs that a rebuild leaves alone, as `output (dataset)`."""
    reused_version: int | None
    missed: int | None
    estimate: JobEstimate | None


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A source whose new form has no past of its own."""

    job: str
    kind: str
    past: str


@dataclass(frozen=True, slots=True)
class SchemaChange:
    field: str
    old: Any
    new: Any
    compatible: bool
    why: str
    breaks: tuple[str, ...]
    may_break: tuple[str, ...]
    """Readers whose columns are not known."""
    place: str
    line: int | None


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    name: str
    action: DatasetAction
    was: str | None
    parts: tuple[str, ...]
    rebuilt_parts: tuple[str, ...]
    edits: tuple[Edit, ...]
    schema: tuple[SchemaChange, ...]
    jobs: tuple[str, ...]
    """Of this DAG, that read it."""
    dags: tuple[str, ...]
    """Jobs of other DAGs, as `dag.job`."""
    alert_rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    output: str
    dataset: str | None
    to: str


@dataclass(frozen=True, slots=True)
class Invalidation:
    dataset: str
    reader: str


@dataclass(frozen=True, slots=True)
class CutOver:
    pointers: tuple[Pointer, ...]
    held: tuple[str, ...]
    """Jobs whose live work waits from the start of the build until the cut over."""
    waits_for: tuple[str, ...]
    """Sources that must first cover what the old ones cover."""
    external_inputs: tuple[str, ...]
    """Other DAGs' datasets that must not move between the build and the cut over."""
    invalidations: tuple[Invalidation, ...]
    removed: tuple[str, ...]
    """Jobs that end; their data stays until it is purged."""


@dataclass(frozen=True, slots=True)
class Plan:
    dag: str
    from_version: int | None
    from_digest: str | None
    to_digest: str
    state_token: str
    edits: tuple[Edit, ...]
    jobs: tuple[JobPlan, ...]
    sources: tuple[SourcePlan, ...]
    datasets: tuple[DatasetPlan, ...]
    total: Total | None
    cut_over: CutOver
    warnings: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """There is nothing to do."""
        quiet = all(job.action is Action.KEPT and not job.edits for job in self.jobs)
        return quiet and not self.edits and not self.datasets and self.from_version is not None

    @property
    def rebuild_set(self) -> frozenset[str]:
        return frozenset(job.name for job in self.jobs if job.rebuilds)

    @property
    def incompatible(self) -> tuple[tuple[str, SchemaChange], ...]:
        """Dataset and change, for what its readers do not survive."""
        return tuple(
            (dataset.name, change)
            for dataset in self.datasets
            for change in dataset.schema
            if not change.compatible
        )

    @property
    def digest(self) -> str:
        """Of what would be done: two plans that do the same have one, whatever they estimate."""
        content = _json(self, _NOT_COMPARED)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def job(self, name: str) -> JobPlan:
        return next(job for job in self.jobs if job.name == name)

    def dataset(self, name: str) -> DatasetPlan:
        return next(dataset for dataset in self.datasets if dataset.name == name)

    def to_json(self) -> dict[str, Any]:
        """Plain values; keys come in the order in which the plan declares them."""
        return {
            "digest": self.digest,
            "is_empty": self.is_empty,
            "rebuild_set": sorted(self.rebuild_set),
            **_json(self),
        }


def exit_code(plan: Plan | None) -> int:
    """As a pipeline reads it: 0 nothing to do, 2 changes, 1 no plan because of an error."""
    if plan is None:
        return 1
    return 0 if plan.is_empty else 2


def _json(value: Any, without: frozenset[str] = frozenset()) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            each.name: _json(getattr(value, each.name), without)
            for each in dataclasses.fields(value)
            if each.name not in without
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: _json(value[name], without) for name in sorted(value)}
    if isinstance(value, tuple | list):
        return [_json(each, without) for each in value]
    return value
