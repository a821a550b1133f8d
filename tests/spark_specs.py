"""PySpark operators as DAG files of tests name them."""

from __future__ import annotations

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.operators.configs import OperatorConfig


class CopyConfig(OperatorConfig):
    sort_by: tuple[str, ...] = ()
    one_file: bool = False
    cursor_column: str | None = None
    held_by: str | None = None


class NoConfig(OperatorConfig):
    """Nothing to set."""


def _spec(name: str, function: str, **more: object) -> OperatorSpec:
    fields = {"storage": Storage.S3, "config": NoConfig, **more}
    return OperatorSpec(
        name=name,
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.EMR_SERVERLESS}),
        description="Only tests use it.",
        outputs=range(1, 3),
        implementation=f"tests.spark.operators_for_tests:{function}",
        **fields,  # type: ignore[arg-type]
    )


OPERATORS = [
    _spec("spark_copy", "copy", config=CopyConfig),
    _spec("spark_look_back", "copy", config=CopyConfig, reads_before=1),
    _spec(
        "spark_load",
        "copy",
        config=CopyConfig,
        storage=Storage.POSTGRES,
        columns=((Column("number", "bigint"), Column("name", "text")),),
    ),
    _spec(
        "spark_readings",
        "copy",
        config=CopyConfig,
        storage=Storage.POSTGRES,
        columns=(
            (Column("number", "bigint"), Column("device", "text"), Column("value", "bigint")),
        ),
    ),
]
