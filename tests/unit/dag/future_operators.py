"""Stand-ins for the operators that the example file uses: what a DAG file is refused for does not
change with the operators that are shipped.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.operators.catalog import load_catalog
from trace_core.operators.configs import OperatorConfig

REACTIVE = frozenset({Activation.REACTIVE})


class SqlTransformConfig(OperatorConfig):
    sql: str = Field(min_length=1)


class AlertEvaluateConfig(OperatorConfig):
    rules: tuple[str, ...] = Field(min_length=1)


class AlertRouteConfig(OperatorConfig):
    destination: str
    max_delivery_age: str = "7d"
    finality: Literal["latest", "safe", "finalized"] = "latest"
    on_reorg: Literal["suppress", "retract"] = "suppress"


class WebhookSourceConfig(OperatorConfig):
    """Nothing to set."""


OPERATORS = [
    OperatorSpec(
        name="webhook_source",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER, Runtime.LAMBDA}),
        config=WebhookSourceConfig,
        source_kinds=frozenset({SourceKind.WEBHOOK}),
        description="Keeps what is posted to it.",
    ),
    OperatorSpec(
        name="sql_transform",
        code_version="1",
        activations=REACTIVE,
        runtimes=frozenset({Runtime.EMR_SERVERLESS, Runtime.LAMBDA}),
        config=SqlTransformConfig,
        description="One SELECT over its inputs.",
    ),
    OperatorSpec(
        name="alert_evaluate",
        code_version="1",
        activations=REACTIVE,
        runtimes=frozenset({Runtime.LAMBDA, Runtime.WORKER}),
        config=AlertEvaluateConfig,
        description="Finds what somebody wants to hear about.",
    ),
    OperatorSpec(
        name="alert_route",
        code_version="1",
        activations=REACTIVE,
        runtimes=frozenset({Runtime.LAMBDA, Runtime.WORKER}),
        config=AlertRouteConfig,
        description="Turns alerts into deliveries.",
    ),
]

NAMES = frozenset(each.name for each in OPERATORS)


def stand_in_catalog() -> Catalog:
    """The stand-ins, and of what is shipped all that has another name."""
    shipped = [each for each in load_catalog([]).values() if each.name not in NAMES]
    return Catalog(*shipped, *OPERATORS)
