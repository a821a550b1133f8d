"""A made chain with ERC-20 transfers as Parquet: the same each time, and kept for the next run.

Of each block 100 logs in 25 transactions. Amounts are such as tokens have: half of them below 2^63,
most others of 18 decimals, and in logs one of a thousand takes all 256 bits.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from trace_chain import columns as chain
from trace_core.dag.model import Column

LOGS_OF_A_BLOCK, LOGS_OF_A_TRANSACTION = 100, 4
FILE_ROWS = 500_000
"""Logs in a file; of the other datasets, what belongs to them."""
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_APPROVAL = "0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925"
_SWAP = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
TOKENS, ACCOUNTS = 500, 50_000
_VERSION = 1

_LABELS = (Column("address", "text"), Column("label", "text"), Column("category", "text"))
_TRANSFERS = (
    Column("block_number", "bigint"),
    Column("log_index", "integer"),
    Column("token", "text"),
    Column("amount", "numeric(78,0)"),
)
COLUMNS: dict[str, Sequence[Column]] = {
    "blocks": chain.BLOCKS,
    "transactions": chain.TRANSACTIONS,
    "logs": chain.LOGS,
    "transfers": _TRANSFERS,
    "labels": _LABELS,
}


@dataclass(frozen=True)
class Sample:
    """The files of one number of logs."""

    rows: int
    folder: Path

    @property
    def blocks(self) -> int:
        return self.rows // LOGS_OF_A_BLOCK

    @property
    def _files(self) -> int:
        return -(-self.rows // FILE_ROWS)

    def paths(self, dataset: str) -> list[Path]:
        files = 1 if dataset == "labels" else self._files
        return [self.folder / dataset / f"{at:04}.parquet" for at in range(files)]

    def make(self) -> Sample:
        """What is not there yet."""
        if self.rows % LOGS_OF_A_BLOCK or (self.rows > FILE_ROWS and self.rows % FILE_ROWS):
            raise ValueError(f"{self.rows} rows: ask for full blocks, and above 500,000 full files")
        with duckdb.connect() as database:
            database.execute("SET threads = 2")
            for dataset in COLUMNS:
                for at, path in enumerate(self.paths(dataset)):
                    if not path.is_file():
                        first = at * FILE_ROWS
                        last = min(first + FILE_ROWS, self.rows)
                        _write(database, path, dataset, first, last)
        return self


def sample(home: Path, rows: int) -> Sample:
    """Larger samples begin with the files of smaller ones, as far as these are full."""
    name = "full" if rows >= FILE_ROWS else f"{rows}"
    return Sample(rows, home.resolve() / f"spark-{_VERSION}" / name).make()


def remove(home: Path) -> None:
    shutil.rmtree(home.resolve() / f"spark-{_VERSION}", ignore_errors=True)


def _write(
    database: duckdb.DuckDBPyConnection, path: Path, dataset: str, first: int, last: int
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    query = _QUERIES[dataset].format(first=first, last=last)
    database.execute(f"COPY ({query}) TO '{unfinished}' (FORMAT parquet, COMPRESSION zstd)")
    unfinished.rename(path)


def _hash(what: str, number: str) -> str:
    return f"('0x' || sha256('{what}' || {number}))"


def _address(what: str, number: str) -> str:
    return f"('0x' || substr(sha256('{what}' || {number}), 1, 40))"


def _topic(number: str) -> str:
    """An account's address as a word."""
    return f"('0x' || repeat('0', 24) || substr(sha256('account' || {number}), 1, 40))"


_DRAWN = f"""
  SELECT *,
         CASE WHEN draw % 10 < 8 THEN '{TRANSFER}' WHEN draw % 10 = 8 THEN '{_APPROVAL}'
              ELSE '{_SWAP}' END AS topic0,
         floor({TOKENS} * power(((draw // 10) % 1000000) / 1000000, 3))::BIGINT AS token,
         (draw // 1000) % {ACCOUNTS} AS sender, (draw // 777) % {ACCOUNTS} AS receiver,
         (draw // 100) % 1000 = 0 AS huge,
         CASE WHEN (draw // 100) % 2 = 0 THEN ((draw // 10000) % 10000000000)::HUGEINT
              ELSE (draw // 10000) % 1000000000000 * 100000000000000::HUGEINT
                   + (draw // 100000) % 100000000000000 END AS amount
    FROM (SELECT i, i // {LOGS_OF_A_BLOCK} AS block_number,
                 (i % {LOGS_OF_A_BLOCK})::INTEGER AS log_index,
                 (i % {LOGS_OF_A_BLOCK} // {LOGS_OF_A_TRANSACTION})::INTEGER AS transaction_index,
                 (md5_number_lower('log' || i) // 2)::BIGINT AS draw
            FROM range({{first}}, {{last}}) AS t(i))
"""
_TRANSACTIONS = LOGS_OF_A_BLOCK // LOGS_OF_A_TRANSACTION
_QUERIES = {
    "blocks": f"""
        SELECT i AS number, {_hash("block", "i")} AS hash, {_hash("block", "i - 1")} AS parent_hash,
               TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_seconds(i * 12) AS timestamp,
               {_address("miner", "i % 20")} AS miner, 15000000::BIGINT AS gas_used,
               '1000000000' AS base_fee_per_gas, '0x' || repeat('0', 512) AS logs_bloom,
               {_hash("transactions", "i")} AS transactions_root,
               {_hash("receipts", "i")} AS receipts_root, {_hash("state", "i")} AS state_root,
               {_TRANSACTIONS}::INTEGER AS transaction_count,
               {LOGS_OF_A_BLOCK}::INTEGER AS log_count,
               60000::BIGINT AS size, '0x' AS extra_data, 'receipts' AS verified
          FROM range({{first}} // {LOGS_OF_A_BLOCK}, {{last}} // {LOGS_OF_A_BLOCK}) AS t(i)""",
    "transactions": f"""
        SELECT i // {_TRANSACTIONS} AS block_number,
               {_hash("block", f"(i // {_TRANSACTIONS})")} AS block_hash,
               (i % {_TRANSACTIONS})::INTEGER AS transaction_index, {_hash("tx", "i")} AS hash,
               {_address("account", f"(i * 7919 % {ACCOUNTS})")} AS from_address,
               {_address("token", f"(i % {TOKENS})")} AS to_address, '0' AS value,
               i // 1000 AS nonce, '0xa9059cbb' || sha256('input' || i) AS input,
               200000::BIGINT AS gas, '1500000000' AS gas_price, '3000000000' AS max_fee_per_gas,
               '500000000' AS max_priority_fee_per_gas, 2::SMALLINT AS type, 1::SMALLINT AS status,
               50000::BIGINT AS gas_used, 50000 * (1 + i % {_TRANSACTIONS}) AS cumulative_gas_used,
               NULL::VARCHAR AS contract_address
          FROM range({{first}} // {LOGS_OF_A_TRANSACTION}, {{last}} // {LOGS_OF_A_TRANSACTION})
            AS t(i)""",
    "logs": f"""
        SELECT block_number, {_hash("block", "block_number")} AS block_hash,
               {_hash("tx", f"(i // {LOGS_OF_A_TRANSACTION})")} AS transaction_hash,
               transaction_index, log_index, {_address("token", "token")} AS address, topic0,
               {_topic("sender")} AS topic1, {_topic("receiver")} AS topic2,
               NULL::VARCHAR AS topic3,
               '0x' || CASE WHEN huge THEN sha256('amount' || i)
                            ELSE lpad(lower(hex(amount)), 64, '0') END
                    || CASE WHEN topic0 = '{_SWAP}' THEN repeat('0', 192) ELSE '' END AS data
          FROM ({_DRAWN}) ORDER BY i""",
    "transfers": f"""
        SELECT block_number, log_index, {_address("token", "token")} AS token,
               amount::VARCHAR AS amount
          FROM ({_DRAWN}) WHERE topic0 = '{TRANSFER}' ORDER BY i""",
    "labels": f"""
        SELECT {_address("token", "i")} AS address, 'Token ' || i AS label,
               CASE WHEN i % 3 = 0 THEN 'stable' ELSE 'other' END AS category
          FROM range({TOKENS * 40}) AS t(i)""",
}
