"""Tables of dataset versions: made by a deploy, dropped by a purge.

The owner does both, in `ensure_version` and `delete_version`. Writers get no function that makes
tables for them: every worker could call it, and only deploys need it.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.arrays import Uuids
from trace_core.database.data import Columns, DataDatabase, DataTransaction, Definitions, Place
from trace_core.database.postgres import Row, as_json
from trace_core.database.sql import Statements
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.storage.errors import RowsInvalid, VersionDiffers
from trace_core.storage.model import schema_name, table_name
from trace_core.storage.rows import check_columns

_SQL = Statements("trace_core.storage", "versions.sql")


@dataclass(frozen=True)
class VersionTable:
    """How the rows of one dataset version are kept in Postgres."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    columns: tuple[Column, ...]
    update_strategy: UpdateStrategy
    unique_key: tuple[str, ...] = ()

    def places(self) -> dict[str, Place]:
        found: dict[str, Place] = {
            "schema": schema_name(self.dataset_uuid),
            "table": table_name(self.dataset_version),
            "columns": Columns(tuple(column.name for column in self.columns)),
        }
        if self.unique_key:
            found["unique_key"] = Columns(self.unique_key)
        return found


class VersionTables:
    """Makes and drops the tables; its session must be allowed to take the role of the owner."""

    def __init__(self, data: DataDatabase) -> None:
        self._data = data

    def ensure_version(self, wanted: VersionTable) -> bool:
        """Make what is missing; answers whether it was. Another definition is `VersionDiffers`."""
        _check(wanted)
        with self._data.transaction("ensure_version") as tx:
            _begin(tx)
            known = tx.one(_SQL["version"], {"dataset_version": wanted.dataset_version})
            if known is not None:
                if version_of(wanted.dataset_version, known) != wanted:
                    raise VersionDiffers(dataset_version=str(wanted.dataset_version))
                return False
            _make(tx, wanted)
            return True

    def delete_version(self, dataset_uuid: DatasetUuid, dataset_version: DatasetVersion) -> None:
        """Drop rows, records and counter; doing it again changes nothing."""
        places = {"schema": schema_name(dataset_uuid), "table": table_name(dataset_version)}
        params = {"dataset_version": dataset_version}
        with self._data.transaction("delete_version") as tx:
            _begin(tx)
            known = tx.one(_SQL["version"], params)
            if known is None or known.dataset_uuid != dataset_uuid:
                return
            tx.run(_SQL["drop_table"], {}, places)
            tasks = [row.task_id for row in tx.all(_SQL["tasks_of_version"], params)]
            tx.run(_SQL["drop_records"], params)
            tx.run(_SQL["drop_completions"], {"task_ids": Uuids(tasks)})
            tx.run(_SQL["drop_pin"], params)
            tx.run(_SQL["drop_version"], params)
            left = tx.one(_SQL["other_versions"], {"dataset_uuid": dataset_uuid})
            if left is not None and left.n == 0:
                tx.run(_SQL["drop_schema"], {}, places)


def version_of(dataset_version: DatasetVersion, row: Row) -> VersionTable:
    """What `trace.versions` says."""
    return VersionTable(
        DatasetUuid(row.dataset_uuid),
        dataset_version,
        tuple(Column(each["name"], each["type"]) for each in row.columns),
        UpdateStrategy(row.update_strategy),
        tuple(row.unique_key),
    )


def _begin(tx: DataTransaction) -> None:
    tx.run(_SQL["take_owner"], {})
    tx.run(_SQL["lock_versions"], {})


def _check(wanted: VersionTable) -> None:
    check_columns(wanted.columns, wanted.unique_key)
    if (wanted.update_strategy is UpdateStrategy.APPEND) != bool(wanted.unique_key):
        raise RowsInvalid(
            "`append` tells rows apart by a unique key, and `replace` has none.",
            field="unique_key",
        )


def _make(tx: DataTransaction, wanted: VersionTable) -> None:
    places = wanted.places()
    table = table_name(wanted.dataset_version)
    # Compared byte by byte, as every other reader of these rows does, whatever the server speaks.
    types = tuple(
        (column.name, f'{column.type} COLLATE "C"' if column.type == "text" else column.type)
        for column in wanted.columns
    )
    tx.run(_SQL["make_schema"], {}, places)
    tx.run(_SQL["grant_schema"], {}, places)
    tx.run(_SQL["make_table"], {}, {**places, "definitions": Definitions(types)})
    tx.run(_SQL["grant_table"], {}, places)
    tx.run(_SQL["grant_reader"], {}, places)
    indexes = ["range", "wide", "scope", *(["unique"] if wanted.unique_key else [])]
    for index in indexes:
        tx.run(_SQL[f"index_{index}"], {}, {**places, "index": f"{table}_{index}"})
    tx.run(
        _SQL["add_version"],
        {
            "dataset_version": wanted.dataset_version,
            "dataset_uuid": wanted.dataset_uuid,
            "columns": as_json([{"name": each.name, "type": each.type} for each in wanted.columns]),
            "update_strategy": wanted.update_strategy.value,
            "unique_key": list(wanted.unique_key),
        },
    )
