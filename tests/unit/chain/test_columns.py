from __future__ import annotations

import pytest

from trace_chain import columns
from trace_core.dag.model import Column
from trace_core.storage.rows import check_columns

TABLES = ("BLOCKS", "TRANSACTIONS", "LOGS", "HEADS", "LIVELINESS", "PROVIDER_CHECKS", "LABELS")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_of_a_chain_can_be_made(name: str) -> None:
    check_columns(getattr(columns, name))


@pytest.mark.parametrize(
    ("dataset", "table"),
    [("blocks", columns.BLOCKS), ("transactions", columns.TRANSACTIONS), ("logs", columns.LOGS)],
)
def test_what_places_a_row_is_a_whole_number(dataset: str, table: tuple[Column, ...]) -> None:
    assert Column(columns.CURSORS[dataset], "bigint") in table
