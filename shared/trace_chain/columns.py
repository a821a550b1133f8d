"""The columns of what is read from a chain, the same for what is followed and what is backfilled.

Hex values are lower-case text with `0x`; numbers that may pass 63 bits are exact. A column is here
only if a node and Cryo both give it, or if it follows from what both give: `transaction_count` and
`log_count` by counting, `cumulative_gas_used` by adding up the block's `gas_used` in order, and
`contract_address` from sender and nonce.
"""

from __future__ import annotations

from trace_core.dag.model import Column

_UINT256 = "numeric(78,0)"

VERIFIED_RECEIPTS = "receipts"
"""The block's receipts give the root in its header, and its logs are those of the receipts."""
VERIFIED_BLOOM = "bloom"
"""The block's logs give the bloom in its header."""

BLOCKS = (
    Column("number", "bigint"),
    Column("hash", "text"),
    Column("parent_hash", "text"),
    Column("timestamp", "timestamptz"),
    Column("miner", "text"),
    Column("gas_used", "bigint"),
    Column("base_fee_per_gas", _UINT256),  # nothing before EIP-1559
    Column("logs_bloom", "text"),
    Column("transactions_root", "text"),
    Column("receipts_root", "text"),
    Column("state_root", "text"),
    Column("transaction_count", "integer"),
    Column("log_count", "integer"),
    Column("size", "bigint"),
    Column("extra_data", "text"),
    Column("verified", "text"),  # how its logs were checked before they were written
)

TRANSACTIONS = (
    Column("block_number", "bigint"),
    Column("block_hash", "text"),
    Column("transaction_index", "integer"),
    Column("hash", "text"),
    Column("from_address", "text"),
    Column("to_address", "text"),  # nothing for one that makes a contract
    Column("value", _UINT256),
    Column("nonce", "bigint"),
    Column("input", "text"),
    Column("gas", "bigint"),
    Column("gas_price", _UINT256),  # what was paid: the effective price
    Column("max_fee_per_gas", _UINT256),
    Column("max_priority_fee_per_gas", _UINT256),
    Column("type", "smallint"),
    Column("status", "smallint"),  # 1 done, 0 reverted, nothing before Byzantium
    Column("gas_used", "bigint"),
    Column("cumulative_gas_used", "bigint"),
    Column("contract_address", "text"),
)

LOGS = (
    Column("block_number", "bigint"),
    Column("block_hash", "text"),
    Column("transaction_hash", "text"),
    Column("transaction_index", "integer"),
    Column("log_index", "integer"),  # counts through the block
    Column("address", "text"),
    Column("topic0", "text"),
    Column("topic1", "text"),
    Column("topic2", "text"),
    Column("topic3", "text"),
    Column("data", "text"),
)

HEADS = (
    Column("chain_id", "bigint"),
    Column("latest", "bigint"),
    Column("latest_hash", "text"),
    Column("latest_timestamp", "timestamptz"),
    Column("safe", "bigint"),  # nothing on chains that do not tell
    Column("finalized", "bigint"),
    Column("followed", "bigint"),  # the last block that is written
    Column("observed_at", "timestamptz"),
)

LIVELINESS = (
    Column("checked_at", "timestamptz"),
    Column("provider", "text"),
    Column("chain_id", "bigint"),
    Column("head", "bigint"),
    Column("head_timestamp", "timestamptz"),
    Column("age_seconds", "bigint"),
    Column("verdict", "text"),
    Column("reason", "text"),
)

PROVIDER_CHECKS = (
    Column("block_number", "bigint"),
    Column("provider", "text"),
    Column("block_hash", "text"),
    Column("receipts_root", "text"),
    Column("log_count", "integer"),
    Column("verdict", "text"),
    Column("reason", "text"),
    Column("checked_at", "timestamptz"),
)

LABELS = (
    Column("address", "text"),
    Column("label", "text"),
    Column("category", "text"),
    Column("note", "text"),
)

CURSORS = {"blocks": "number", "transactions": "block_number", "logs": "block_number"}
"""Which column places a row, by what its objects are called."""
