from __future__ import annotations

import pyarrow as pa

from trace_core.dag.model import Column
from trace_core.storage.derived_columns import with_derived
from trace_core.storage.rows import TYPE_KEY, arrow_schema

COLUMNS = [
    Column("amount", "numeric(78,0)"),
    Column("id", "uuid"),
    Column("body", "jsonb"),
    Column("name", "text"),
    Column("number", "bigint"),
    Column("at", "timestamptz"),
    Column("exact", "numeric(20,2)"),
]


def test_rows_that_were_read_keep_their_types_when_they_are_written_again() -> None:
    assert with_derived([], arrow_schema(COLUMNS)) == COLUMNS


def test_a_field_that_says_what_it_cannot_be_is_what_arrow_knows_it_as() -> None:
    for told in ("bigint", "numeric(20,2)", "money", "\udcff"):
        said = {TYPE_KEY: told.encode(errors="surrogateescape")}
        field = pa.field("a", pa.string(), metadata=said)
        assert with_derived([], pa.schema([field])) == [Column("a", "text")]
