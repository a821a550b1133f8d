"""The settings of the operators for chains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_core.operators.configs import INT64_MAX, OperatorConfig

Verify = Literal["receipts", "bloom"]


class BlockFollowerConfig(OperatorConfig):
    chain_id: int = Field(ge=1, le=INT64_MAX, description="A node of another chain is refused.")
    start_block: int = Field(default=0, ge=0, le=2**62, description="The first block to write.")
    verify: Verify = Field(
        default="receipts",
        description="How blocks are checked before they are written: exactly, by the roots in their"
        " headers; or by the logs bloom, for chains whose transactions or headers are encoded in a"
        " way of their own.",
    )
    confirmations: int = Field(
        default=0, ge=0, le=10_000, description="Stay this many blocks behind the latest one."
    )
    max_depth: int = Field(
        default=256,
        ge=64,
        le=4096,
        description="How deep a reorg is repaired; a deeper one stops the job with an error.",
    )
    max_blocks: int = Field(
        default=500, ge=1, le=10_000, description="At most this many blocks in one commit."
    )
    max_rows: int = Field(
        default=50_000, ge=1, le=1_000_000, description="No further block once there are so many."
    )
    slice_seconds: float = Field(
        default=10.0, ge=0.1, le=300.0, description="No further block after this time."
    )
    wait_seconds: float = Field(
        default=5.0, ge=0.0, le=300.0, description="How long one slice waits for the next block."
    )
    poll_seconds: float = Field(
        default=0.5, ge=0.01, le=60.0, description="How often it looks for one meanwhile."
    )
    batch_blocks: int = Field(
        default=20, ge=1, le=200, description="Blocks in one request to the node."
    )
    connections: int = Field(default=4, ge=1, le=32, description="Requests on their way at once.")


HOW_IT_FOLLOWS = frozenset(BlockFollowerConfig.model_fields) - {"chain_id", "start_block", "verify"}
"""What changes when it writes, but not what."""
