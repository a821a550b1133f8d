"""The operators that backfill and check chains, as DAG files see them."""

from __future__ import annotations

from trace_chain.backfill_configs import (
    AddressLabelsConfig,
    CryoIngestConfig,
    LivelinessMonitorConfig,
    RpcIntegrityCheckConfig,
)
from trace_chain.columns import LABELS, LIVELINESS, PROVIDER_CHECKS
from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind, Storage

_TIMED = frozenset({SourceKind.CRON, SourceKind.ALWAYS_ON})

BACKFILL: list[OperatorSpec] = [
    OperatorSpec(
        name="cryo_ingest",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=CryoIngestConfig,
        execution_only=frozenset({"chunk_blocks", "requests"}),
        source_kinds=frozenset(),
        outputs_together=True,
        outputs=range(1, 4),
        storage=Storage.S3,
        description="Backfills a range with Cryo: blocks, transactions and logs, checked before"
        " they are written.",
        implementation="trace_chain.cryo_ingest:CryoIngest",
    ),
    OperatorSpec(
        name="liveliness_monitor",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=LivelinessMonitorConfig,
        execution_only=frozenset({"every_seconds", "timeout_seconds"}),
        source_kinds=_TIMED,
        storage=Storage.POSTGRES,
        columns=(LIVELINESS,),
        description="Looks at the head of each provider that its slot names: live, stale, behind,"
        " away, or on another chain.",
        implementation="trace_chain.liveliness_monitor:LivelinessMonitor",
    ),
    OperatorSpec(
        name="rpc_integrity_check",
        code_version="1",
        activations=frozenset({Activation.SOURCE, Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=RpcIntegrityCheckConfig,
        execution_only=frozenset({"every_seconds", "timeout_seconds"}),
        source_kinds=_TIMED,
        storage=Storage.POSTGRES,
        columns=(PROVIDER_CHECKS,),
        description="Asks the providers that its slot names about the same blocks, and names those"
        " that tell something else than the quorum.",
        implementation="trace_chain.rpc_integrity_check:RpcIntegrityCheck",
    ),
    OperatorSpec(
        name="address_labels",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=AddressLabelsConfig,
        source_kinds=frozenset({SourceKind.MANUAL}),
        storage=Storage.POSTGRES,
        columns=(LABELS,),
        description="Names of addresses, from CSV files that people upload.",
        implementation="trace_chain.address_labels:AddressLabels",
    ),
]
