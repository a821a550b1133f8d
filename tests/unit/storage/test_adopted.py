"""Objects that a run has written are looked through before they count."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.dag.model import Column
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.storage.adopted import adopt_objects
from trace_core.storage.errors import RowsInvalid
from trace_core.storage.model import Manifest, ManifestIdentity

IDENTITY = ManifestIdentity(
    DatasetUuid(UUID(int=1)), DatasetVersion(UUID(int=2)), TaskId(UUID(int=3)), 1, 1, 0,
    Scope.of_range(0, 9),
)  # fmt: skip


def _adopt(folder: Path, rows: pa.Table, *columns: Column) -> Manifest:
    store = FileObjectStore(folder)
    target = io.BytesIO()
    pq.write_table(rows, target)
    store.create("run/out/part.parquet", target.getvalue())
    return adopt_objects(store, ["run/out/part.parquet"], "version/v/", IDENTITY, columns)


@pytest.mark.parametrize(
    ("array", "kind", "told"),
    [
        (pa.array([4 * 10**17], pa.timestamp("us", "UTC")), "timestamptz", "years 1 to 9999"),
        (pa.array([4 * 10**7], pa.int32()).cast(pa.date32()), "date", "years 1 to 9999"),
        (pa.array(["a\0b"]), "text", "NUL"),
    ],
    ids=["timestamptz", "date", "text"],
)
def test_values_that_no_dataset_holds_are_refused_by_column(
    tmp_path: Path, array: pa.Array, kind: str, told: str
) -> None:
    with pytest.raises(RowsInvalid, match=f"Column odd .*{told}"):
        _adopt(tmp_path, pa.table({"odd": array}), Column("odd", kind))


def test_what_is_adopted_says_what_lies_in_it(tmp_path: Path) -> None:
    rows = pa.table({"n": [3, 1, None], "at": pa.array([0, None, 5], pa.timestamp("us", "UTC"))})
    (found,) = _adopt(tmp_path, rows, Column("n", "bigint"), Column("at", "timestamptz")).objects
    assert found.key == "version/v/0-9/rows_0_9.parquet"
    assert (found.rows, found.minimum["n"], found.maximum["n"]) == (3, 1, 3)
    assert found.maximum["at"] == "1970-01-01T00:00:00.000005+00:00"
