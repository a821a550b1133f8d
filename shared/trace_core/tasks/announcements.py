"""Events as rows: those that get their number with their acceptance, and those that have one.

The latter announce commits, and scopes that were declared invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.model import Runtime
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.state import Row, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid, Unavailable
from trace_core.kernel.ids import Ids, OrgId
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Readable
from trace_core.tasks.api import EventIn
from trace_core.tasks.statements import SQL

_TRIES = 5
RUNTIMES = len(Runtime)
"""A call wakes each runtime at most once, so it needs that many outbox ids at most."""


class ForeignOutput(Invalid):
    """An event names a dataset version that this task's job does not produce."""

    code = "ForeignOutput"


class UncommittedScope(Invalid):
    """An event names a scope of an output with rows that were not committed; send it as output."""

    code = "UncommittedScope"


def event_params(events: Sequence[EventIn], ids: Ids) -> dict[str, Any]:
    """Events as parallel arrays, one element each."""
    bounds = [event.bounds for event in events]
    return {
        "event_ids": Uuids(ids.event_ids(len(events))),
        "event_datasets": Uuids([event.dataset_uuid for event in events]),
        "event_versions": Uuids([event.dataset_version for event in events]),
        "event_scopes": [event.scope_key for event in events],
        "event_starts": Bigints([start for start, _ in bounds]),
        "event_ends": Bigints([end for _, end in bounds]),
        "event_revisions": Bigints([event.revision for event in events]),
    }


def with_fresh_routes(accept: Callable[[], Row]) -> Row:
    """Ask again when routes changed between the look at them and the lock of the counters.

    A cutover or rollback is short and each can step in once, so a few times are plenty.
    """
    for _ in range(_TRIES):
        row = accept()
        if not row.moved:
            return row
    raise Unavailable("Where these events go changes faster than they can be accepted.")


@dataclass(frozen=True)
class Announcement:
    dataset_version: UUID
    scope: Scope
    number: int
    revision: int
    producer: UUID | None = None
    """The task that wrote; None announces under the event's own id."""
    attempt: int = 0
    reason: str | None = None
    """Why the scope is not what it was; None announces something new."""

    @staticmethod
    def of(commit: Readable) -> Announcement:
        return Announcement(
            commit.dataset_version, commit.scope, commit.event_number, commit.number,
            commit.task_id, commit.attempt, commit.reason if commit.rewrites else None,
        )  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """Where an invalidation comes from."""

    source: str = "replace"
    deploy_id: UUID | None = None
    user_id: UUID | None = None
    client_key: str | None = None


@dataclass(frozen=True)
class Announced:
    accepted: int = 0
    tasks_made: int = 0
    woke: bool = False
    """The relay has something to do, once the transaction has committed."""
    event_ids: tuple[UUID, ...] = ()


def announce(
    tx: Transaction,
    ids: Ids,
    org_id: OrgId,
    announcements: Sequence[Announcement],
    now: datetime,
    origin: Origin = Origin(),
) -> Announced:
    """Under the locks of the versions' counters, which the caller holds.

    Ids grow in the order given, and so do those of the tasks: what was committed first goes first.
    """
    if not announcements:
        return Announced()
    event_ids = ids.event_ids(len(announcements))
    bounds = [each.scope.range or (None, None) for each in announcements]
    row = tx.all(
        SQL["announce"],
        {
            "org_id": org_id,
            "now": now,
            "event_ids": Uuids(event_ids),
            "producers": Uuids(
                [each.producer or own for each, own in zip(announcements, event_ids, strict=True)]
            ),
            "attempts": [each.attempt for each in announcements],
            "versions": Uuids([each.dataset_version for each in announcements]),
            "scopes": [each.scope.key for each in announcements],
            "starts": Bigints([start for start, _ in bounds]),
            "ends": Bigints([end for _, end in bounds]),
            "revisions": Bigints([each.revision for each in announcements]),
            "numbers": Bigints([each.number for each in announcements]),
            "rewrites": [each.reason is not None for each in announcements],
            "reasons": [each.reason for each in announcements],
            "source": origin.source,
            "deploy_id": origin.deploy_id,
            "user_id": origin.user_id,
            "client_key": origin.client_key,
            "outbox_ids": Uuids(ids.many(RUNTIMES)),
            "wake_fanout": limits.WAKE_FANOUT,
        },
    )[0]
    return Announced(row.accepted, row.tasks_made, bool(row.woken), tuple(event_ids))
