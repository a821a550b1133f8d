"""The settings of backfills, monitors and labels; no Arrow is loaded with them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_core.operators.configs import INT64_MAX, OperatorConfig

Dataset = Literal["blocks", "transactions", "logs"]


class CryoIngestConfig(OperatorConfig):
    chain_id: int = Field(ge=1, le=INT64_MAX, description="The chain that the provider must be on.")
    datasets: tuple[Dataset, ...] = Field(
        default=("blocks", "transactions", "logs"),
        min_length=1,
        max_length=3,
        description="What is written, one output for each.",
    )
    verify: Literal["receipts", "bloom"] = Field(
        default="receipts",
        description="How a block is checked before it is written: exactly, or by its bloom.",
    )
    chunk_blocks: int = Field(
        default=1000, ge=1, le=100_000, description="How many blocks are held in memory at once."
    )
    requests: int = Field(default=16, ge=1, le=256, description="Requests at once.")


class LivelinessMonitorConfig(OperatorConfig):
    chain_id: int = Field(ge=1, le=INT64_MAX, description="The chain that providers must be on.")
    max_age_seconds: int = Field(
        default=60, ge=1, le=86_400, description="An older head makes a provider `stale`."
    )
    max_behind: int = Field(
        default=5, ge=0, le=100_000, description="More blocks than that make it `behind`."
    )
    every_seconds: float = Field(
        default=15.0, ge=1, le=3600, description="How often an always-on monitor looks."
    )
    timeout_seconds: float = Field(
        default=10.0, gt=0, le=300, description="How long one provider may take."
    )


class RpcIntegrityCheckConfig(OperatorConfig):
    quorum: int = Field(
        default=2, ge=2, le=100, description="How many providers must tell the same of a block."
    )
    max_blocks: int = Field(
        default=100, ge=1, le=10_000, description="Of a longer range, at most so many are asked."
    )
    depth: int = Field(
        default=3, ge=0, le=10_000, description="As a source: so far behind the head."
    )
    every_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="As an always-on source: how often."
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, le=300, description="How long one answer of a provider may take."
    )


class AddressLabelsConfig(OperatorConfig):
    """Nothing to set: uploads are requests."""
