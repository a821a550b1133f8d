"""Read the objects of a dataset again and compare them with what was committed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_core.database.state import Row, StateDatabase
from trace_core.identity.model import Actor
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.registry.read_rights import ReadRights
from trace_core.registry.reading import SQL, Moment, Pinning, stored_objects
from trace_core.storage.model import Backend, Manifest, Pin

BUDGET_SECONDS = 10.0
"""For one answer; a commit that was begun is finished."""
_PAGE = 200


@dataclass(frozen=True)
class Finding:
    part: int
    scope: Scope
    number: int
    problem: str
    key: str


@dataclass(frozen=True)
class Checked:
    pins: dict[int, Pin]
    unverifiable: list[int]
    """Parts whose rows lie in Postgres, or that have none: there are no objects to compare."""
    partitions: int
    partitions_in_all: int | None
    """Counted with the first answer only."""
    objects: int
    bytes: int
    findings: list[Finding]
    after: tuple[int, int] | None
    """Part and number of the last one; None when that was all."""


class Verifications:
    def __init__(
        self,
        state: StateDatabase,
        rights: ReadRights,
        objects: ObjectStore,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._rights = rights
        self._objects = objects
        self._monotonic = monotonic
        self._pinning = Pinning(state)

    def verify(
        self,
        org_id: OrgId,
        dataset: str,
        actor: Actor,
        *,
        scope: str | None = None,
        after: tuple[int, int] | None = None,
    ) -> Checked:
        """Live commits after the given one, as many as fit into the time of one answer."""
        self._rights.find(org_id, dataset, actor)
        pins = self._pinning.pins(org_id, dataset, Moment())
        layouts = self._pinning.layouts(pins)
        with_objects = [part for part in pins if layouts[part].backend is Backend.S3]
        wanted: dict[str, Any] = {
            "scope": scope,
            "scopes": [] if scope is None else [f"c{scope}", f"p{scope}"],
        }
        in_all = None
        if after is None:
            in_all = self._count([pins[part] for part in with_objects], wanted)
            if scope is not None and in_all == 0:
                raise NotFound(f"{dataset} has no partition {scope}.", scope=scope)
        page = _Page(self._objects)
        ends_at = self._monotonic() + BUDGET_SECONDS
        last: tuple[int, int] | None = None
        for part in with_objects:
            if after is not None and part < after[0]:
                continue
            number = after[1] if after is not None and part == after[0] else 0
            while rows := self._commits(pins[part], number, wanted):
                for row in rows:
                    # At least one, so that every answer gets on.
                    if last is not None and self._monotonic() >= ends_at:
                        return page.checked(pins, layouts, in_all, last)
                    page.check(part, pins[part], row)
                    number, last = row.number, (part, row.number)
        return page.checked(pins, layouts, in_all, None)

    def _commits(self, pin: Pin, after: int, wanted: dict[str, Any]) -> list[Row]:
        params = {
            "dataset_version": pin.dataset_version,
            "number": pin.number,
            "after": after,
            "limit": _PAGE,
        }
        return self._state.read(SQL["commits_to_verify"], params | wanted)

    def _count(self, pins: Sequence[Pin], wanted: dict[str, Any]) -> int:
        params = {"versions": [pin.dataset_version for pin in pins]}
        return int(self._state.read(SQL["count_to_verify"], params | wanted)[0].commits)


class _Page:
    """What one answer has found so far."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._partitions = self._objects = self._bytes = 0
        self._findings: list[Finding] = []

    def check(self, part: int, pin: Pin, row: Row) -> None:
        # Reads Parquet elsewhere in its room, which whoever verifies nothing need not load.
        from trace_core.storage.objects import rehash

        manifest = _manifest(pin, row)
        folder = row.manifest_key.rpartition("/")[0] + "/" if row.manifest_key else None
        found = rehash(self._store, manifest, folder=folder)
        altered, missing = [*found.altered], [*found.missing]
        if row.manifest_key:
            try:
                text = self._store.read(row.manifest_key)
                if hashlib.sha256(text).hexdigest() != row.manifest_sha256:
                    altered.append(row.manifest_key)
            except NotFound:
                missing.append(row.manifest_key)
        named = {"altered": altered, "missing": missing, "extra": found.extra}
        self._findings += [
            Finding(part, manifest.scope, row.number, problem, key)
            for problem, keys in named.items()
            for key in keys
        ]
        self._partitions += 1
        self._objects += len(manifest.objects)
        self._bytes += manifest.bytes

    def checked(
        self,
        pins: dict[int, Pin],
        layouts: dict[int, Any],
        in_all: int | None,
        after: tuple[int, int] | None,
    ) -> Checked:
        unverifiable = [part for part in pins if layouts[part].backend is not Backend.S3]
        return Checked(
            pins,
            unverifiable,
            self._partitions,
            in_all,
            self._objects,
            self._bytes,
            self._findings,
            after,
        )


def _manifest(pin: Pin, row: Row) -> Manifest:
    """As it was committed, which is what the objects are held against."""
    return Manifest(
        pin.dataset_uuid,
        pin.dataset_version,
        TaskId(row.task_id),
        row.attempt,
        row.lease_sequence,
        row.output_index,
        Scope.parse(row.scope, row.range_start, row.range_end),
        (),
        stored_objects(row.objects),
    )
