"""How Parquet is written here, by everybody who writes it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def parquet_settings(schema: pa.Schema) -> dict[str, Any]:
    """Without the least and greatest value of floating-point columns: Arrow leaves NaN out of them,
    and to Spark NaN is greater than any number, so that it would pass over rows by them."""
    ordered = [each.name for each in schema if not pa.types.is_floating(each.type)]
    return {"compression": "zstd", "version": "2.6", "write_statistics": ordered}
