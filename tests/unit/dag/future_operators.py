"""Operators that the example file uses and that are not part of the built-in catalog."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind
from trace_core.operators.configs import OperatorConfig

REACTIVE = frozenset({Activation.REACTIVE})


class BlockFollowerConfig(OperatorConfig):
    chain_id: int = Field(ge=1)
    start_block: int = Field(default=0, ge=0)
    poll_seconds: int = Field(default=1, ge=1)


class CryoIngestConfig(OperatorConfig):
    chain_id: int = Field(ge=1)
    datasets: tuple[Literal["blocks", "transactions", "logs"], ...] = Field(min_length=1)


class ParquetCompactConfig(OperatorConfig):
    sort_by: tuple[str, ...] = ()


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
        name="block_follower",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=BlockFollowerConfig,
        execution_only=frozenset({"poll_seconds"}),
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
        outputs=3,
        description="Follows the head of a chain.",
    ),
    OperatorSpec(
        name="cryo_ingest",
        code_version="1",
        activations=REACTIVE,
        runtimes=frozenset({Runtime.WORKER}),
        config=CryoIngestConfig,
        outputs=range(1, 4),
        description="Loads a range of history.",
    ),
    OperatorSpec(
        name="parquet_compact",
        code_version="1",
        activations=REACTIVE,
        runtimes=frozenset({Runtime.EMR_SERVERLESS}),
        config=ParquetCompactConfig,
        description="Writes a range as one sorted file.",
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
