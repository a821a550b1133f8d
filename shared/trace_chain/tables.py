"""Rows of a chain as Arrow tables, in the types that their columns are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trace_chain.columns import BLOCKS, LOGS, TRANSACTIONS
from trace_chain.completeness import Block
from trace_core.dag.model import Column
from trace_core.storage.rows import arrow_schema


def table(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(columns)
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [pa.array(list(each), field.type) for each, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def tables_of(blocks: Sequence[Block]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Of blocks, transactions and logs, in the order of the chain."""
    return (
        table(BLOCKS, [each.block for each in blocks]),
        table(TRANSACTIONS, [row for each in blocks for row in each.transactions]),
        table(LOGS, [row for each in blocks for row in each.logs]),
    )
