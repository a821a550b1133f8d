"""What a plan must know about the running state; whoever asks for the plan loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReaderKind(StrEnum):
    JOB = "job"
    ALERT_RULE = "alert rule"


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a published dataset from outside this DAG's file."""

    kind: ReaderKind
    name: str
    dag: str | None = None
    """Whose job it is; nothing for an alert rule."""
    columns: frozenset[str] | None = None
    """The columns it names; nothing when that is not known."""

    def __str__(self) -> str:
        return f"{self.dag}.{self.name}" if self.dag else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A job of the active version, as it was registered."""

    fingerprint: str
    code_version: str | None = None
    """Of its operator when it was registered; nothing when that was not kept."""


@dataclass(frozen=True, slots=True)
class BuiltJob:
    """A job of an earlier version whose data is still there."""

    version: int
    """The dag version that it was part of last."""
    missed: int | None = None
    """Events since then that it has to catch up with; nothing when not counted."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What one output of an active job holds; nothing stands for what is not known."""

    partitions: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PlanFacts:
    state_token: str
    """Names the state that the plan was made on; applying is refused when it has moved."""
    version: int | None = None
    """The active dag version; nothing before the first deploy."""
    digest: str | None = None
    active: Mapping[str, ActiveJob] = field(default_factory=dict)
    built: Mapping[tuple[str, str], BuiltJob] = field(default_factory=dict)
    """Job name and fingerprint -> what exists of it, the active ones left out."""
    outputs: Mapping[tuple[str, int], OutputFacts] = field(default_factory=dict)
    durations: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Job -> seconds that its last tasks took, the newest first."""
    input_scopes: Mapping[str, int] = field(default_factory=dict)
    """Job at the root of a rebuild -> scopes it would work on: requests of a manual or webhook
    source, partitions of another DAG's dataset."""
    readers: Mapping[str, tuple[Reader, ...]] = field(default_factory=dict)
    """Published dataset -> who reads it from outside this DAG."""
    at_once: int | None = None
    """Tasks that run at once when a job sets no limit of its own."""
