"""The PySpark operators, as DAG files see them; importing this needs no Spark."""

from __future__ import annotations

from emr_jobs import checks
from emr_jobs.operators.decode_logs_config import DecodeLogsConfig
from emr_jobs.operators.enrich_config import EnrichConfig
from emr_jobs.operators.integrity_check_config import VERDICTS, IntegrityCheckConfig
from emr_jobs.operators.parquet_compact_config import ParquetCompactConfig
from emr_jobs.operators.rollup_config import RollupConfig
from emr_jobs.operators.sql_transform_config import SqlTransformConfig
from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.operators.configs import config_model

_REACTIVE = frozenset({Activation.REACTIVE})
_SPARK = frozenset({Runtime.EMR_SERVERLESS})
OUTPUTS_MAX = 16

OPERATORS: list[OperatorSpec] = [
    OperatorSpec(
        name="decode_logs",
        code_version="2",
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(DecodeLogsConfig),
        storage=Storage.S3,
        description="Logs of contracts as the events that they are, exact and typed.",
        implementation="emr_jobs.operators.decode_logs:run",
    ),
    OperatorSpec(
        name="integrity_check",
        code_version="2",
        # The parent of the first block, so that a break between two ranges is seen.
        reads_before=1,
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(IntegrityCheckConfig),
        # What is asked for again is no part of the verdict.
        execution_only=frozenset({"invalidate", "max_invalidations"}),
        storage=Storage.S3,
        columns=(tuple(Column(name, kind) for name, kind in VERDICTS),),
        description="A verdict on each range of a chain; bad ranges are asked for again.",
        implementation="emr_jobs.operators.integrity_check:run",
    ),
    OperatorSpec(
        name="parquet_compact",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(ParquetCompactConfig),
        # They decide whether a range is written, and not what.
        execution_only=frozenset({"expect", "heads", "finality_depth"}),
        outputs_together=True,
        outputs=range(1, OUTPUTS_MAX + 1),
        storage=Storage.S3,
        description="Writes a range as one sorted file, from hot rows or many small files.",
        implementation="emr_jobs.operators.parquet_compact:run",
    ),
    OperatorSpec(
        name="sql_transform",
        code_version="2",
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(SqlTransformConfig),
        storage=Storage.S3,
        description="One SELECT of Spark SQL over its inputs.",
        implementation="emr_jobs.operators.sql_transform:run",
        check=checks.sql_transform,
    ),
    OperatorSpec(
        name="enrich",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(EnrichConfig),
        storage=Storage.S3,
        description="Joins rows with labels, or with other datasets.",
        implementation="emr_jobs.operators.enrich:run",
        check=checks.enrich,
    ),
    OperatorSpec(
        name="rollup",
        code_version="1",
        activations=_REACTIVE,
        runtimes=_SPARK,
        config=config_model(RollupConfig),
        storage=Storage.S3,
        description="Figures for groups and buckets of rows; sums are exact.",
        implementation="emr_jobs.operators.rollup:run",
        check=checks.rollup,
    ),
]
