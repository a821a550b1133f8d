"""Names for datasets as they were at one moment. A snapshot never advances, and is not purged."""

from __future__ import annotations

from typing import Any

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.errors import Conflict, Forbidden, NotFound
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.registry.read_rights import ReadRights
from trace_core.storage.model import Pin

SQL = Statements("trace_core.registry", "snapshots.sql")


class SnapshotExists(Conflict):
    """The org has a snapshot of that name, and a snapshot never advances: choose another name."""

    code = "SnapshotExists"


class SnapshotViews:
    """What is there; whoever asks has looked at the caller's rights."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def of(
        self, org_id: OrgId, dataset: str, *, limit: int, after: str | None = None
    ) -> list[dict[str, Any]]:
        """By name; `after` is the last name of the page before."""
        params = {"org_id": org_id, "dataset": dataset, "after": after or "", "limit": limit}
        rows = self._state.read(SQL["list"], params | {"snapshot": None})
        return [row._asdict() for row in rows]

    def pins(self, org_id: OrgId, dataset: str, snapshot: str) -> dict[int, Pin]:
        """What a snapshot names, by part; raises `NotFound`."""
        params = {"org_id": org_id, "dataset": dataset, "after": "", "limit": 1}
        rows = self._state.read(SQL["list"], params | {"snapshot": snapshot})
        if not rows:
            raise _no_snapshot(dataset, snapshot)
        return {each["part"]: Pin.parse(each) for each in rows[0].pins}


class Snapshots:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, rights: ReadRights) -> None:
        self._state = state
        self._clock = clock
        self._rights = rights
        self._views = SnapshotViews(state)
        self._audit = Audit(state, clock, ids)

    def of(
        self, org_id: OrgId, dataset: str, actor: Actor, *, limit: int, after: str | None = None
    ) -> list[dict[str, Any]]:
        self._rights.find(org_id, dataset, actor)
        return self._views.of(org_id, dataset, limit=limit, after=after)

    def create(
        self, org_id: OrgId, dataset: str, snapshot: str, description: str, actor: Actor
    ) -> dict[int, Pin]:
        """Pin every part as it is now, in one statement; answers the pins by part."""
        self._rights.find(org_id, dataset, actor)
        params = {
            "org_id": org_id,
            "dataset": dataset,
            "snapshot": snapshot,
            "description": description,
            "user_id": actor.user_id,
            "now": self._clock.now(),
        }
        with self._state.transaction("snapshot") as tx:
            rows = tx.all(SQL["add"], params)
            if not rows:
                raise SnapshotExists(snapshot=snapshot)
            if tx.one(SQL["marked"], params) is not None:
                raise Conflict("The dataset is being purged; look at its versions.")
            self._audit.record(tx, org_id, actor, "snapshot.create", snapshot, dataset=dataset)
        return {row.part: _pin(row) for row in rows}

    def remove(self, org_id: OrgId, dataset: str, snapshot: str, actor: Actor) -> None:
        """By whoever made it, or may deploy the DAG."""
        found = self._rights.find(org_id, dataset, actor)
        params = {"org_id": org_id, "dataset": dataset, "snapshot": snapshot}
        with self._state.transaction("remove_snapshot") as tx:
            row = tx.one(SQL["lock_snapshot"], params)
            if row is None:
                raise _no_snapshot(dataset, snapshot)
            own = actor.user_id is not None and actor.user_id == row.created_by
            if not own and not actor.may_deploy(found.created_by, found.deploy_roles):
                raise Forbidden(
                    "Only whoever made a snapshot, and those who may deploy the DAG, delete it.",
                    snapshot=snapshot,
                )
            tx.run(SQL["remove"], params)
            self._audit.record(tx, org_id, actor, "snapshot.remove", snapshot, dataset=dataset)


def _pin(row: Any) -> Pin:
    return Pin(
        DatasetUuid(row.dataset_uuid), DatasetVersion(row.dataset_version), row.number, row.swap
    )


def _no_snapshot(dataset: str, snapshot: str) -> NotFound:
    return NotFound(f"No snapshot {snapshot} of {dataset}.", snapshot=snapshot)
