"""`published.<dataset_name>`: views for people and tools that speak to the data database itself.

A convenience. Which version is current is known in the state database alone; views follow it, all
those of a DAG in one transaction, and show each version up to a copied readable pin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from uuid import UUID

from trace_core.dag.model import Column
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.data import Columns, Constant, DataDatabase, DataTransaction, Query
from trace_core.database.postgres import Row, as_json
from trace_core.database.sql import Statements
from trace_core.kernel.ids import DagId, DatasetUuid, DatasetVersion, OrgId
from trace_core.storage.model import schema_name, table_name

_SQL = Statements("trace_core.storage", "versions.sql", "published_views.sql")
_NAME_BYTES_MAX = 63
_TURN = timedelta(seconds=10)
"""How long one waits until another has moved its views; less than an outbox row is held."""
_FIRST_VIEW, _FIRST_VIEW_MAX = timedelta(milliseconds=500), timedelta(seconds=5)
"""How long the first view is waited for, doubled with each try: those who come to read it wait
behind us, so it becomes free even if it is read all the time."""
_OTHER_VIEWS = timedelta(milliseconds=200)
"""How long all others are waited for, with views in hand that others may wait for. Far less than
makes Postgres look for a deadlock: whoever reads two views is never its victim."""


@dataclass(frozen=True)
class PublishedPart:
    dataset_version: DatasetVersion
    number: int
    """Its readable pin."""


@dataclass(frozen=True)
class PublishedTable:
    """A published name, and the current versions behind it, all of them in Postgres."""

    org_id: OrgId
    dag_id: DagId
    dataset_name: str
    parts: tuple[PublishedPart, ...]

    @property
    def key(self) -> tuple[UUID, str]:
        return self.org_id, self.dataset_name


@dataclass(frozen=True)
class PartTable:
    """The table of a version, as far as people see it."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    columns: tuple[Column, ...]


Tables = Mapping[DatasetVersion, PartTable]
ReadWanted = Callable[[], Sequence[PublishedTable]]


def shown(table: PublishedTable, known: Tables) -> tuple[PartTable, ...]:
    """What a view of it can show: nothing of a version without a table, which has no rows yet, and
    nothing at all of parts that do not fit below each other."""
    found = tuple(
        known[part.dataset_version] for part in table.parts if part.dataset_version in known
    )
    return found if len({each.columns for each in found}) == 1 else ()


def view_name(org_id: OrgId, dataset_name: str, taken: Collection[str]) -> str:
    """The name itself if it fits and is free; otherwise its beginning, and a digest of both."""
    return next(each for each in _names(org_id, dataset_name) if each not in taken)


def _names(org_id: OrgId, dataset_name: str) -> Iterator[str]:
    name = dataset_name.encode()
    if len(name) <= _NAME_BYTES_MAX:
        yield dataset_name
    digest = hashlib.sha256(f"{org_id}/{dataset_name}".encode()).hexdigest()
    for size in (10, 20, 40):
        room = _NAME_BYTES_MAX - size - 1
        yield f"{name[:room].decode(errors='ignore')}_{digest[:size]}"


@dataclass(frozen=True)
class Change:
    """What is to be done about the view of one name."""

    org_id: OrgId
    dag_id: DagId
    dataset_name: str
    view_name: str
    shows: tuple[PartTable, ...]
    """Nothing: it goes."""
    drops: bool
    """The view that is there goes, at least for a moment: it has other columns."""

    @property
    def columns(self) -> list[dict[str, str]]:
        return _fields(self.shows[0].columns)


def changes(
    wanted: Sequence[PublishedTable], known: Tables, recorded: Sequence[Row], dag_id: DagId | None
) -> list[Change]:
    """From what is recorded to what is wanted, of one DAG or of all; always in the same order."""
    by_name = {(row.org_id, row.dataset_name): row for row in recorded}
    taken = {row.view_name for row in recorded}
    visible = {table.key: found for table in wanted if (found := shown(table, known))}
    todo = [
        Change(row.org_id, row.dag_id, row.dataset_name, row.view_name, (), drops=True)
        for key, row in by_name.items()
        if key not in visible and dag_id in (None, row.dag_id)
    ]
    for table in wanted:
        shows, old = visible.get(table.key), by_name.get(table.key)
        if not shows or (old and _is_shown(old, table, shows)):
            continue
        name = old.view_name if old else view_name(table.org_id, table.dataset_name, taken)
        taken.add(name)
        drops = old is not None and old.columns != _fields(shows[0].columns)
        todo.append(Change(table.org_id, table.dag_id, table.dataset_name, name, shows, drops))
    return sorted(todo, key=lambda each: each.view_name)


def _is_shown(old: Row, table: PublishedTable, shows: Sequence[PartTable]) -> bool:
    versions = [each.dataset_version for each in shows]
    return bool(old.dag_id == table.dag_id and old.versions == versions)


def _fields(columns: Sequence[Column]) -> list[dict[str, str]]:
    return [{"name": each.name, "type": each.type} for each in columns]


class PublishedViews:
    """Moves views and pins; its session must be allowed to take the role of the owner."""

    def __init__(self, data: DataDatabase) -> None:
        self._data = data

    def repoint(self, dag_id: DagId, read_wanted: ReadWanted, tries: int = 1) -> int:
        """Make the views of a DAG what they should be now; answers how many were not.

        What is wanted is read after everybody before has finished, so that whoever comes last has
        read last. Views that somebody reads for too long are `InUse`: then none has moved. Each
        try begins with another one.
        """
        with self._data.transaction("repoint") as tx:
            tx.run(_SQL["take_owner"], {})
            _limit_waits(tx, _TURN)
            tx.run(_SQL["lock_views"], {})
            wanted = read_wanted()
            todo = changes(wanted, _tables(tx, wanted), tx.all(_SQL["views"], {}), dag_id)
            _limit_waits(tx, min(_FIRST_VIEW * 2 ** (tries - 1), _FIRST_VIEW_MAX))
            for place in range(len(todo)):
                _apply(tx, todo[(place + tries - 1) % len(todo)])
                _limit_waits(tx, _OTHER_VIEWS / len(todo))
            _limit_waits(tx, _OTHER_VIEWS)
            _put_pins(tx, [part for table in wanted for part in table.parts])
        return len(todo)

    def advance_pins(self, parts: Sequence[PublishedPart]) -> int:
        """Let the views show what has become readable; answers how many versions moved."""
        with self._data.transaction("advance_pins") as tx:
            tx.run(_SQL["take_owner"], {})
            return _put_pins(tx, parts)

    def stale(self, wanted: Sequence[PublishedTable]) -> set[tuple[OrgId, DagId]]:
        """DAGs whose views are not what they should be; `wanted` is everything that there is."""
        with self._data.transaction("stale_views") as tx:
            tx.run(_SQL["take_owner"], {})
            todo = changes(wanted, _tables(tx, wanted), tx.all(_SQL["views"], {}), None)
        return {(each.org_id, each.dag_id) for each in todo}


def _limit_waits(tx: DataTransaction, wait: timedelta) -> None:
    # 0 would be no limit.
    milliseconds = max(1, round(wait / timedelta(milliseconds=1)))
    tx.one(_SQL["limit_waits"], {"milliseconds": str(milliseconds)})


def _tables(tx: DataTransaction, wanted: Sequence[PublishedTable]) -> Tables:
    versions = Uuids(part.dataset_version for table in wanted for part in table.parts)
    rows = tx.all(_SQL["tables"], {"versions": versions})
    return {
        row.dataset_version: PartTable(
            row.dataset_uuid,
            row.dataset_version,
            tuple(Column(each["name"], each["type"]) for each in row.columns),
        )
        for row in rows
    }


def _apply(tx: DataTransaction, change: Change) -> None:
    view = {"view": change.view_name}
    if change.drops:
        tx.run(_SQL["drop_view"], {}, view)
    if not change.shows:
        tx.run(_SQL["drop_record"], {"org_id": change.org_id, "dataset_name": change.dataset_name})
        return
    tx.run(_SQL["make_view"], {}, {**view, "rows": _rows(change.shows)})
    tx.run(_SQL["grant_view"], {}, view)
    tx.run(
        _SQL["put_record"],
        {
            "org_id": change.org_id,
            "dataset_name": change.dataset_name,
            "view_name": change.view_name,
            "dag_id": change.dag_id,
            "versions": Uuids(each.dataset_version for each in change.shows),
            "columns": as_json(change.columns),
        },
    )


def _rows(shows: Sequence[PartTable]) -> Query:
    return reduce(
        lambda earlier, later: Query(_SQL["rows_of_parts"], {"earlier": earlier, "later": later}),
        [_rows_of(each) for each in shows],
    )


def _rows_of(part: PartTable) -> Query:
    return Query(
        _SQL["rows_of_part"],
        {
            "schema": schema_name(part.dataset_uuid),
            "table": table_name(part.dataset_version),
            "columns": Columns(tuple(column.name for column in part.columns)),
            "version": Constant(part.dataset_version),
        },
    )


def _put_pins(tx: DataTransaction, parts: Sequence[PublishedPart]) -> int:
    params = {
        "versions": Uuids(part.dataset_version for part in parts),
        "numbers": Bigints(part.number for part in parts),
    }
    return len(tx.all(_SQL["put_pins"], params))
