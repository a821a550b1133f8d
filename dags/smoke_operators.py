"""The operator of `make localstack-smoke`: shows that a large payload reaches a function whole."""

from __future__ import annotations

from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Emit, Result, TaskContext
from trace_core.operators.configs import OperatorConfig


class CountConfig(OperatorConfig):
    text: str = Field(min_length=1, description="What is counted.")


class Count:
    """Announces how long its text is, as the end of a range."""

    def run(self, task: TaskContext[CountConfig]) -> Result:
        return Result(events=[Emit(0, Scope.of_range(0, len(task.config.text)))])


OPERATORS = [
    OperatorSpec(
        name="smoke_count",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=CountConfig,
        description="Counts the characters of a text.",
        implementation="dags.smoke_operators:Count",
    )
]
