"""The operators for EVM chains, as DAG files see them."""

from __future__ import annotations

from trace_chain import configs
from trace_chain.backfill_catalog import BACKFILL
from trace_chain.columns import BLOCKS, HEADS, LOGS, TRANSACTIONS
from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Runtime, SourceKind, Storage

OPERATORS: list[OperatorSpec] = [
    OperatorSpec(
        name="block_follower",
        code_version="1",
        activations=frozenset({Activation.SOURCE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=configs.BlockFollowerConfig,
        execution_only=configs.HOW_IT_FOLLOWS,
        source_kinds=frozenset({SourceKind.ALWAYS_ON}),
        outputs_together=True,
        outputs=range(3, 5),
        storage=Storage.POSTGRES,
        columns=(BLOCKS, TRANSACTIONS, LOGS, HEADS),
        description="Blocks, transactions and logs of a chain, verified, and repaired after reorgs;"
        " a fourth output tells latest, safe and finalized.",
        implementation="trace_chain.block_follower:BlockFollower",
    ),
    *BACKFILL,
]
