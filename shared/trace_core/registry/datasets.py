"""What people see of published datasets: read-only, and only what the caller may read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.identity.model import Actor
from trace_core.kernel.ids import OrgId
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.registry.purge import version_prefix
from trace_core.registry.read_rights import ReadRights, no_dataset, reader
from trace_core.registry.snapshots import SnapshotViews
from trace_core.registry.standing import standing_of
from trace_core.storage.model import Backend, schema_name, table_name

SQL = Statements("trace_core.registry", "read_rights.sql", "standing.sql", "datasets.sql")
_LAST_ID = UUID(int=2**128 - 1)
_FIRST_ID = UUID(int=0)
_LAST_NUMBER = 2**63 - 1
_NEIGHBOURS = 200
_SNAPSHOTS_SHOWN = 20
_STANDING = ("is_current", "is_candidate", "is_rollback_target", "purge_marked_at", "purged_at")


class Datasets:
    def __init__(self, state: StateDatabase, clock: Clock, rights: ReadRights) -> None:
        self._state = state
        self._clock = clock
        self._rights = rights
        self._snapshots = SnapshotViews(state)

    def published(
        self,
        org_id: OrgId,
        actor: Actor,
        *,
        dag: str | None = None,
        contains: str | None = None,
        mine: bool = False,
        hidden: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> list[dict[str, Any]]:
        """By name; `after` is the last name of the page before."""
        wanted = {"dag": dag, "contains": contains, "mine": mine, "hidden": hidden}
        params = {"org_id": org_id, "after": after or "", "limit": limit, **wanted, **reader(actor)}
        return [self._with_freshness(row) for row in self._state.read(SQL["list"], params)]

    def show(self, org_id: OrgId, dataset: str, actor: Actor) -> dict[str, Any]:
        params = {"org_id": org_id, "dataset": dataset, "limit": _NEIGHBOURS, **reader(actor)}
        rows = self._state.read(SQL["show"], params)
        if not rows:
            raise no_dataset(dataset)
        parts = [_part(org_id, row) for row in self._state.read(SQL["parts"], params)]
        announced = [each["announced_at"] for each in parts if each["announced_at"]]
        return {
            **self._with_freshness(rows[0], max(announced, default=None)),
            "parts": parts,
            "upstream": _rows(self._state.read(SQL["upstream"], params)),
            "downstream": _rows(self._state.read(SQL["downstream"], params)),
            "snapshots": self._snapshots.of(org_id, dataset, limit=_SNAPSHOTS_SHOWN),
        }

    def versions(
        self,
        org_id: OrgId,
        dataset: str,
        actor: Actor,
        *,
        limit: int,
        before: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last id of the page before."""
        self._rights.find(org_id, dataset, actor)
        params = {"org_id": org_id, "dataset": dataset, "before": before or _LAST_ID}
        rows = self._state.read(SQL["versions"], params | {"limit": limit})
        return [_standing(row) for row in rows]

    def partitions(
        self,
        org_id: OrgId,
        dataset: str,
        actor: Actor,
        *,
        limit: int,
        part: int | None = None,
        scope: str | None = None,
        after: tuple[int, int] | None = None,
    ) -> list[dict[str, Any]]:
        """Part by part, in each the newest first; `after` is part and number of the last one."""
        self._rights.find(org_id, dataset, actor)
        named = {"org_id": org_id, "dataset": dataset, "part": part}
        first, number = after or (0, _LAST_NUMBER)
        found: list[dict[str, Any]] = []
        for each in self._state.read(SQL["current_parts"], named):
            if each.part < first or len(found) >= limit:
                continue
            statement = "announcements" if each.backend == Backend.CONTROL else "live_commits"
            params = {
                "dataset_version": each.dataset_version,
                "before": number if each.part == first else _LAST_NUMBER,
                "scope": scope,
                "scopes": [] if scope is None else [f"c{scope}", f"p{scope}"],
                "limit": limit - len(found),
            }
            rows = self._state.read(SQL[statement], params)
            found += [{"part": each.part, **_scoped(row)} for row in rows]
        return found

    def storage(
        self,
        org_id: OrgId,
        actor: Actor,
        *,
        limit: int,
        dag: str | None = None,
        after: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The oldest version first; `after` is the last id of the page before."""
        params = {"org_id": org_id, "dag": dag, "after": after or _FIRST_ID, "limit": limit}
        rows = self._state.read(SQL["storage"], params | reader(actor))
        return [_standing(row) for row in rows]

    def _with_freshness(self, row: Row, announced_at: datetime | None = None) -> dict[str, Any]:
        """How old the newest announcement is, beside how old it may be."""
        fields: dict[str, Any] = row._asdict()
        allowed: timedelta | None = fields.pop("freshness")
        newest = fields.pop("announced_at", announced_at)
        age = None if newest is None else self._clock.now() - newest
        # What was never announced is not fresh.
        fresh = None if allowed is None else age is not None and age <= allowed
        freshness = {
            "announced_at": newest,
            "age_seconds": None if age is None else max(0, int(age.total_seconds())),
            "allowed_seconds": None if allowed is None else int(allowed.total_seconds()),
            "fresh": fresh,
        }
        return {**fields, "freshness": freshness}


def _part(org_id: OrgId, row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = row._asdict()
    location = None
    if row.backend == Backend.S3:
        location = version_prefix(org_id, row.dataset_uuid, row.dataset_version)
    if row.backend == Backend.POSTGRES:
        location = f"{schema_name(row.dataset_uuid)}.{table_name(row.dataset_version)}"
    return {**fields, "location": location}


def _standing(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = row._asdict()
    standing = standing_of(**{name: fields.pop(name) for name in _STANDING})
    return {**fields, "standing": standing}


def _scoped(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = row._asdict()
    start, end = fields.pop("range_start"), fields.pop("range_end")
    return {**fields, "scope": Scope.parse(fields["scope"], start, end).fields()}


def _rows(rows: list[Row]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]
