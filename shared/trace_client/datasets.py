"""The client's methods about datasets."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_client.calls import Calls, part
from trace_core.http import dataset_answers as answers


class DatasetCalls(Calls):
    def datasets(
        self,
        *,
        dag: str | None = None,
        contains: str | None = None,
        mine: bool = False,
        hidden: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.DatasetPage:
        query = {
            "dag": dag,
            "contains": contains,
            "mine": _if_true(mine),
            "hidden": _if_true(hidden),
            "limit": limit,
            "cursor": cursor,
        }
        return self._call(answers.DatasetPage, "GET", "/v1/datasets", query=query)

    def dataset(self, dataset: str) -> answers.DatasetDetail:
        return self._call(answers.DatasetDetail, "GET", _path(dataset))

    def dataset_versions(
        self, dataset: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.DatasetVersionPage:
        query = {"limit": limit, "cursor": cursor}
        path = _path(dataset, "versions")
        return self._call(answers.DatasetVersionPage, "GET", path, query=query)

    def dataset_partitions(
        self,
        dataset: str,
        *,
        part: int | None = None,
        scope: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.PartitionPage:
        query = {"part": part, "scope": scope, "limit": limit, "cursor": cursor}
        path = _path(dataset, "partitions")
        return self._call(answers.PartitionPage, "GET", path, query=query)

    def set_read_roles(self, dataset: str, roles: Sequence[str]) -> answers.ReadRoles:
        path = _path(dataset, "read-roles")
        return self._call(answers.ReadRoles, "PUT", path, body={"roles": list(roles)})

    def set_dataset_owner(self, dataset: str, user_id: UUID | None) -> answers.Owner:
        body = {"user_id": None if user_id is None else str(user_id)}
        return self._call(answers.Owner, "PUT", _path(dataset, "owner"), body=body)

    def snapshots(
        self, dataset: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.SnapshotPage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.SnapshotPage, "GET", _path(dataset, "snapshots"), query=query)

    def create_snapshot(
        self, dataset: str, snapshot: str, description: str | None = None
    ) -> answers.SnapshotMade:
        body = {"snapshot": snapshot, "description": description}
        return self._call(answers.SnapshotMade, "POST", _path(dataset, "snapshots"), body=body)

    def remove_snapshot(self, dataset: str, snapshot: str) -> answers.SnapshotRemoved:
        path = f"{_path(dataset, 'snapshots')}/{part(snapshot)}"
        return self._call(answers.SnapshotRemoved, "DELETE", path)

    def head(
        self,
        dataset: str,
        *,
        limit: int | None = None,
        version: UUID | str | None = None,
        number: int | None = None,
        snapshot: str | None = None,
    ) -> answers.Head:
        query = {"limit": limit, "version": version, "number": number, "snapshot": snapshot}
        return self._call(answers.Head, "GET", _path(dataset, "head"), query=query)

    def verify(
        self, dataset: str, *, scope: str | None = None, cursor: str | None = None
    ) -> answers.Verification:
        query = {"scope": scope, "cursor": cursor}
        return self._call(answers.Verification, "GET", _path(dataset, "verify"), query=query)

    def purge_preview(
        self, dataset: str, version: UUID | str | None = None
    ) -> answers.PurgePreview:
        path = _path(dataset, "purge-preview")
        return self._call(answers.PurgePreview, "GET", path, query={"version": version})

    def purge(self, dataset: str, versions: Sequence[UUID | str]) -> answers.PurgeMarked:
        body = {"versions": [str(each) for each in versions]}
        return self._call(answers.PurgeMarked, "POST", _path(dataset, "purge"), body=body)

    def cancel_purge(self, dataset: str, versions: Sequence[UUID | str]) -> answers.PurgeMarked:
        body = {"versions": [str(each) for each in versions]}
        return self._call(answers.PurgeMarked, "POST", _path(dataset, "purge/cancel"), body=body)

    def lineage(
        self,
        dataset: str,
        *,
        scope: str | None = None,
        depth: int | None = None,
        number: int | None = None,
    ) -> answers.Lineage:
        query = {"scope": scope, "depth": depth, "number": number}
        return self._call(answers.Lineage, "GET", _path(dataset, "lineage"), query=query)

    def invalidations(
        self, dataset: str, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.InvalidationPage:
        path, query = _path(dataset, "invalidations"), {"limit": limit, "cursor": cursor}
        return self._call(answers.InvalidationPage, "GET", path, query=query)

    def invalidate(
        self,
        dataset: str,
        reason: str,
        key: str,
        *,
        cursor: int | None = None,
        partition_key: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> answers.Invalidated:
        """Nothing but reason and key: all of the dataset. The same key again does no more."""
        body = {
            "reason": reason,
            "key": key,
            "cursor": cursor,
            "partition_key": partition_key,
            "start": start,
            "end": end,
        }
        return self._call(answers.Invalidated, "POST", _path(dataset, "invalidations"), body=body)

    def storage(
        self,
        *,
        dag: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.StoragePage:
        query = {"dag": dag, "limit": limit, "cursor": cursor}
        return self._call(answers.StoragePage, "GET", "/v1/storage", query=query)


def _path(dataset: str, below: str = "") -> str:
    return f"/v1/datasets/{part(dataset)}" + (f"/{below}" if below else "")


def _if_true(value: bool) -> str | None:
    return "true" if value else None
