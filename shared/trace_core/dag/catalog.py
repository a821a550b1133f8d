"""What the DAG room must know about each operator; which ones exist is told by the caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from trace_core.dag.model import Activation, Column, Runtime, SourceKind, Storage
from trace_core.dag.problems import nearest
from trace_core.kernel.errors import Invalid

_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
_IMPLEMENTATION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Upstream:
    """The job of the same DAG that an input reads."""

    operator: str | None
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What an operator's own check may look at; of a job whose config fits its model."""

    config: Mapping[str, Any]
    inputs: Mapping[str, Upstream | None]
    """By alias, in their order; nothing for a dataset of another DAG."""
    trigger: str | None
    """The alias of the input that triggers, if there is one alone."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """What an operator's own check refuses."""

    path: tuple[str | int, ...]
    """Below `config`."""
    reason: str
    suggestion: str


JobCheck = Callable[[JobFacts], Iterable[ConfigProblem]]


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator: where it may run, what configures it, what a change of it means."""

    name: str
    code_version: str
    """Changes when the same inputs would give other outputs: dependent data is then rebuilt."""
    activations: frozenset[Activation]
    runtimes: frozenset[Runtime]
    config: type[BaseModel]
    description: str
    control: bool = False
    """Emits events only and touches no data, so that the Dispatcher may run it itself."""
    announces_rewrites: bool = False
    """A scope of its trigger that is announced again, it announces again to its own readers."""
    outputs_together: bool = False
    """Each of its commits writes the same scope of all outputs."""
    reads_before: int = 0
    """So many cursors before the task's range are read as well, of inputs that do not trigger."""
    execution_only: frozenset[str] = frozenset()
    """Config fields that change how it runs but not what it writes."""
    outputs: int | range = 1
    source_kinds: frozenset[SourceKind] = frozenset(SourceKind)
    implementation: str | None = None
    """`module:Class`, for those that run in this code base."""
    storage: Storage | None = None
    """Where the rows of its outputs go, unless a publication says otherwise; nothing for operators
    that announce events and write no rows."""
    columns: tuple[tuple[Column, ...], ...] = ()
    """Of each output, in their order. A table in Postgres needs them, here or in the `schema` of
    its publication; objects take them from the first rows."""
    check: JobCheck | None = None
    """What its config model cannot say alone: about its inputs, or about the jobs behind them."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(f"operator name {self.name!r} must match {_NAME.pattern}")
        unknown = self.execution_only - set(self.config.model_fields)
        if unknown:
            raise Invalid(f"{self.name}: execution_only names no config field: {sorted(unknown)}")
        if not self.activations or not self.runtimes:
            raise Invalid(f"{self.name}: at least one activation and one runtime are needed")
        if Runtime.DISPATCHER in self.runtimes and not self.control:
            raise Invalid(f"{self.name}: only control work may run in the Dispatcher")
        if self.implementation and not _IMPLEMENTATION.fullmatch(self.implementation):
            raise Invalid(f"{self.name}: implementation must look like `module:Class`")

    @property
    def affects(self) -> frozenset[str]:
        """Config fields that change what it writes."""
        return frozenset(self.config.model_fields) - self.execution_only

    def allows_outputs(self, count: int) -> bool:
        return count in self.outputs if isinstance(self.outputs, range) else count == self.outputs

    def outputs_rule(self) -> str:
        if isinstance(self.outputs, range):
            return f"{self.outputs[0]} to {self.outputs[-1]} outputs"
        return f"{self.outputs} output{'' if self.outputs == 1 else 's'}"


class Catalog(Mapping[str, OperatorSpec]):
    """The operators that a DAG file may name."""

    def __init__(self, *operators: OperatorSpec) -> None:
        self._operators: dict[str, OperatorSpec] = {}
        for operator in operators:
            if operator.name in self._operators:
                raise Invalid(f"operator {operator.name} is defined twice")
            self._operators[operator.name] = operator

    def __getitem__(self, name: str) -> OperatorSpec:
        return self._operators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)

    def with_operators(self, *operators: OperatorSpec) -> Catalog:
        """A larger catalog; an operator of the same name is refused, never replaced."""
        return Catalog(*self._operators.values(), *operators)

    def nearest(self, name: str) -> str | None:
        """The operator that was probably meant."""
        return nearest(name, self._operators)
