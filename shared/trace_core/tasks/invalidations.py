"""Scopes that are no longer what they were: declared by a person, and what became of them.

A rewrite declares itself. A person declares what only people can know: that a provider sent wrong
data, say. Either is one event, made once into a task for each job that reads the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.errors import Conflict, NotFound, Unavailable
from trace_core.kernel.ids import Ids, OrgId
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.registry.commits import Version, lock_versions, take_number
from trace_core.storage.scopes import scope_name
from trace_core.tasks.announcements import Announced, Announcement, Origin, announce
from trace_core.tasks.api import InvalidateRequest

SQL = Statements("trace_core.tasks", "invalidations.sql")
_LAST_ID = UUID(int=2**128 - 1)
_TRIES = 5


class KeyReused(Conflict):
    """This key was used for another request; take a new one."""

    code = "KeyReused"


class _PointerMoved(Exception):
    """Another version became current between the look at it and the lock of its counter."""


@dataclass(frozen=True)
class Declared:
    event_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    number: int


@dataclass(frozen=True)
class Declaration:
    invalidations: tuple[Declared, ...]
    tasks_made: int
    repeated: bool = False
    """The same request had been made before: nothing was declared now."""


def declare_invalid(
    tx: Transaction,
    ids: Ids,
    org_id: OrgId,
    version: Version,
    scope: Scope,
    reason: str,
    origin: Origin,
    now: datetime,
) -> tuple[Declared, Announced]:
    """One event under its own name; the caller holds the lock of the version's counter."""
    number = take_number(tx, version)
    announcement = Announcement(
        version.dataset_version, scope, number, number, producer=None, reason=reason
    )
    done = announce(tx, ids, org_id, [announcement], now, origin)
    (event_id,) = done.event_ids
    return Declared(event_id, version.dataset_uuid, version.dataset_version, number), done


def invalidation_of(state: StateDatabase, event_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """What a task made from one of these events is told about it; nothing of what is simply new."""
    rows = state.read(SQL["invalidation_of"], {"event_ids": Uuids(event_ids)})
    return {
        row.event_id: {"reason": row.reason, "source": row.source, "scope": _scope(row).fields()}
        for row in rows
    }


class Invalidations:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._audit = Audit(state, clock, ids)

    def declare(self, org_id: OrgId, request: InvalidateRequest, actor: Actor) -> Declaration:
        """Of every part of the dataset, in its current version. The same key again is the same."""
        for _ in range(_TRIES):
            try:
                with self._state.transaction("invalidate") as tx:
                    declaration, woke = self._declare(tx, org_id, request, actor)
            except _PointerMoved:
                continue
            if woke:
                self._waker.wake(Function.OUTBOX_RELAY)
            return declaration
        raise Unavailable("The dataset's current version changes faster than it can be named.")

    def _declare(
        self, tx: Transaction, org_id: OrgId, request: InvalidateRequest, actor: Actor
    ) -> tuple[Declaration, bool]:
        parts = self._parts(tx, org_id, request.dataset)
        for part in parts:
            actor.require_deploy_right(part.dag, part.created_by, part.deploy_roles)
        current = list(dict.fromkeys(part.dataset_version for part in parts))
        versions = lock_versions(tx, current)
        # Only what is seen under the lock counts: a cutover may have held it until now.
        found = self._parts(tx, org_id, request.dataset)
        if list(dict.fromkeys(part.dataset_version for part in found)) != current:
            raise _PointerMoved
        before = self._before(tx, org_id, request, [part.dataset_uuid for part in parts])
        if before is not None:
            return before, False
        now = self._clock.now()
        origin = Origin("person", user_id=actor.user_id, client_key=request.key)
        declared, tasks_made, woke = [], 0, False
        for version in current:
            one, done = declare_invalid(
                tx, self._ids, org_id, versions[version], request.scope, request.reason, origin,
                now,
            )  # fmt: skip
            declared.append(one)
            tasks_made += done.tasks_made
            woke |= done.woke
        self._audit.record(
            tx, org_id, actor, "dataset.invalidate", request.dataset,
            scope=scope_name(request.scope), reason=request.reason, tasks=tasks_made,
        )  # fmt: skip
        return Declaration(tuple(declared), tasks_made), woke

    @staticmethod
    def _before(
        tx: Transaction, org_id: OrgId, request: InvalidateRequest, datasets: list[UUID]
    ) -> Declaration | None:
        rows = tx.all(SQL["by_client_key"], {"org_id": org_id, "client_key": request.key})
        if not rows:
            return None
        known = {(row.dataset_uuid, row.scope, row.reason) for row in rows}
        if known != {(each, request.scope_key, request.reason) for each in datasets}:
            raise KeyReused(key=request.key)
        return Declaration(
            tuple(
                Declared(row.event_id, row.dataset_uuid, row.dataset_version, row.number)
                for row in rows
            ),
            0,
            repeated=True,
        )

    @staticmethod
    def _parts(tx: Transaction, org_id: OrgId, dataset: str) -> list[Row]:
        rows = tx.all(SQL["current_parts"], _named(org_id, dataset))
        if not rows:
            raise NotFound(dataset=dataset)
        return rows

    def list(
        self,
        org_id: OrgId,
        *,
        dataset: str | None = None,
        limit: int = 50,
        before: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """The newest first; `before` is the last id of the page before. One is processed when all
        tasks that were made from it have completed."""
        datasets = None
        if dataset is not None:
            parts = self._state.read(SQL["current_parts"], _named(org_id, dataset))
            if not parts:
                raise NotFound(dataset=dataset)
            datasets = Uuids([part.dataset_uuid for part in parts])
        params = {
            "org_id": org_id,
            "dataset_uuids": datasets,
            "before": before or _LAST_ID,
            "limit": limit,
        }
        return [_shown(row) for row in self._state.read(SQL["list_invalidations"], params)]


def _named(org_id: OrgId, dataset: str) -> dict[str, Any]:
    """By its published name, or by the id of one output that may have none."""
    try:
        dataset_uuid = UUID(dataset)
    except ValueError:
        dataset_uuid = None
    return {"org_id": org_id, "name": dataset, "dataset_uuid": dataset_uuid}


def _scope(row: Row) -> Scope:
    return Scope.parse(row.scope, row.range_start, row.range_end)


def _shown(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = row._asdict()
    fields["scope"] = _scope(row).fields()
    del fields["range_start"], fields["range_end"]
    fields["processed"] = all(task["status"] == "Completed" for task in row.tasks)
    return fields
