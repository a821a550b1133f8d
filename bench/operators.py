"""The operators that the benchmark's DAGs name. Nothing runs them: the measured workers only
claim and complete."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind


class NoConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")


OPERATORS = [
    OperatorSpec(
        name="bench_source",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        control=True,
        config=NoConfig,
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
        description="Announces what the benchmark tells it to.",
    ),
    *(
        OperatorSpec(
            name=name,
            code_version="1",
            activations=frozenset({Activation.REACTIVE}),
            runtimes=frozenset({Runtime.WORKER}),
            control=True,
            config=NoConfig,
            outputs=range(1, 50),
            description="As many outputs as are asked for.",
        )
        for name in ("bench_wide", "bench_wider")
    ),
    OperatorSpec(
        name="bench_step",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        control=True,
        config=NoConfig,
        description="Announces one event for the one that made its task.",
    ),
]
