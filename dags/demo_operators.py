"""The operators of the demo: this is all that a project's own operators need."""

from __future__ import annotations

import time
from datetime import timedelta

from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, OperatorFailed, Result, TaskContext
from trace_core.operators.configs import OperatorConfig


class BlocksConfig(OperatorConfig):
    blocks: int = Field(ge=1, description="How many blocks the stream has.")
    per_slice: int = Field(ge=1, le=1000, description="How many blocks one slice announces.")


class Blocks:
    """A stream of blocks, from where the last slice ended: its cursor is operator state."""

    def run(self, task: TaskContext[BlocksConfig]) -> Result:
        row = task.state.get("next_block")
        first = int(row.value) if row else 0
        end = min(first + task.config.per_slice, task.config.blocks)
        if first == end:
            return Result(resume_after=timedelta(minutes=10))
        task.log.info("blocks %s to %s", first, end - 1)
        return Result(
            events=[Emit(0, Scope(cursor=block)) for block in range(first, end)],
            state={"next_block": end},
            resume_after=timedelta(seconds=0.2),
        )


class MeasureConfig(OperatorConfig):
    seconds: float = Field(default=0.1, ge=0)
    slow_chunk: int | None = None
    slow_seconds: float = Field(default=0.0, ge=0)


class Measure:
    """Takes its time over each chunk, and much more of it over one."""

    def run(self, task: TaskContext[MeasureConfig]) -> Result:
        start, end = _range(task)
        print(f"measuring blocks {start} to {end} through {task.env.get('RPC_UPSTREAM')}")
        slow = task.config.slow_chunk is not None and start <= task.config.slow_chunk <= end
        # The first attempt is the slow one; it is there to be killed in the middle.
        if slow and task.attempt == 1:
            time.sleep(task.config.slow_seconds)
        time.sleep(task.config.seconds)
        return Result(events=[Emit(0, Scope.of_range(start, end))])


class NoConfig(OperatorConfig):
    """Nothing to set."""


class PassOn:
    """Announces on its own output what triggered it."""

    def run(self, task: TaskContext[NoConfig]) -> Result:
        return Result(events=[Emit(0, Scope.of_range(*_range(task)))])


def _range(task: TaskContext[OperatorConfig]) -> tuple[int, int]:
    bounds = task.trigger.scope.range if task.trigger else None
    if bounds is None:
        raise OperatorFailed("needs an event with a range")
    return bounds


_REACTIVE = frozenset({Activation.REACTIVE})
_ANYWHERE = frozenset({Runtime.WORKER, Runtime.LAMBDA})

OPERATORS = [
    OperatorSpec(
        name="demo_blocks",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
        config=BlocksConfig,
        description="Announces a stream of blocks.",
        implementation="dags.demo_operators:Blocks",
    ),
    OperatorSpec(
        name="demo_measure",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_ANYWHERE,
        config=MeasureConfig,
        description="Takes its time over a chunk.",
        implementation="dags.demo_operators:Measure",
    ),
    OperatorSpec(
        name="demo_label",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_ANYWHERE,
        config=NoConfig,
        description="Passes a chunk on.",
        implementation="dags.demo_operators:PassOn",
    ),
    OperatorSpec(
        name="demo_summary",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_ANYWHERE,
        config=NoConfig,
        description="Passes a chunk on.",
        implementation="dags.demo_operators:PassOn",
    ),
]
