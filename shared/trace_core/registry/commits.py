"""Register commits: what was written becomes what can be read.

Callers hold the fence of the attempt that wrote, or know that the data database has checked it. All
of it happens under the lock of the versions' counters, so that the order of numbers is the order of
commits, and nothing is announced before every commit with a smaller number can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.model import UpdateStrategy
from trace_core.database.arrays import Uuids
from trace_core.database.state import Row, Transaction
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.scopes import Scope
from trace_core.registry import model
from trace_core.registry.commit_rows import (
    SQL,
    Lease,
    Version,
    Written,
    add_commits,
    commit_of,
    keep_columns,
    known_manifests,
    live_commits,
    lock_versions,
    pins_of,
    scope_params,
)
from trace_core.registry.relations import (
    ALONE,
    Relations,
    refuse_moved,
    refuse_other_columns,
    take_from_colder,
)
from trace_core.storage.model import Backend, Cut, Pin

__all__ = [
    "CommitDiffers",
    "Lease",
    "Readable",
    "Registered",
    "Version",
    "Written",
    "committed_scopes",
    "lock_versions",
    "pins_of",
    "register",
    "take_number",
]

_NAMED_MAX = 5


class CommitDiffers(Conflict):
    """Another commit is registered in that place."""

    code = "CommitDiffers"


@dataclass(frozen=True)
class Readable:
    """A commit that pins reach from now on, and that is announced therefore."""

    dataset_version: UUID
    number: int
    event_number: int
    scope: Scope
    task_id: UUID
    attempt: int
    replaced: tuple[int, ...]

    @property
    def rewrites(self) -> bool:
        return bool(self.replaced)

    @property
    def reason(self) -> str:
        named = ", ".join(map(str, self.replaced[:_NAMED_MAX]))
        more = len(self.replaced) - _NAMED_MAX
        return f"commit {self.number} replaced {named}" + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Registered:
    readable: list[Readable]
    """In the order of numbers, for each version."""
    numbers: list[int]
    """One for each that was written, in the same order."""


def take_number(tx: Transaction, version: Version) -> int:
    """The next number of a version, for an event without a commit; its counter is locked.

    Commits in the data database have numbers of their own, which such an event does not touch.
    """
    number = version.last_number + 1
    tx.run(
        SQL["advance"],
        {
            "dataset_version": version.dataset_version,
            "last_number": number,
            "readable": version.readable if version.backend is Backend.POSTGRES else number,
            "max_end": None,
        },
    )
    return number


def committed_scopes(
    tx: Transaction, task_id: UUID, wanted: Sequence[tuple[UUID, str]]
) -> set[tuple[UUID, str]]:
    """Those of the wanted versions and scopes that this task has committed."""
    rows = tx.all(
        SQL["committed_scopes"],
        {
            "task_id": task_id,
            "versions": Uuids([version for version, _ in wanted]),
            "scopes": [scope for _, scope in wanted],
        },
    )
    return {(row.dataset_version, row.scope) for row in rows}


def register(
    tx: Transaction,
    versions: dict[UUID, Version],
    written: Sequence[Written],
    now: datetime,
    relations: Relations = ALONE,
) -> Registered:
    """All of it or, by an error, nothing; what is registered already stays as it is."""
    pins: dict[Lease, tuple[Pin, ...]] = {}
    found: list[Written] = []
    for each in written:
        if each.pins is None:
            if each.lease not in pins:
                pins[each.lease] = pins_of(tx, each.lease)
            each = replace(each, pins=pins[each.lease])
        found.append(each)
    readable: list[Readable] = []
    numbers: dict[int, int] = {}
    for dataset_version in sorted({each.dataset_version for each in found}):
        version = versions.get(dataset_version)
        if version is None:
            raise NotFound(f"Dataset version {dataset_version} is not known here.")
        own = [
            (at, each) for at, each in enumerate(found) if each.dataset_version == dataset_version
        ]
        mine = [each for _, each in own]
        if version.backend is Backend.S3:
            given = _register_manifests(tx, version, mine, now, relations)
        else:
            given = _register_numbered(tx, version, mine, now)
        numbers.update(zip((at for at, _ in own), given, strict=True))
        reached = _advance(tx, version, given)
        take_from_colder(tx, relations, {dataset_version: [each.scope for each in reached]})
        readable += reached
    return Registered(readable, [numbers[at] for at in range(len(found))])


def _register_manifests(
    tx: Transaction,
    version: Version,
    written: Sequence[Written],
    now: datetime,
    relations: Relations,
) -> list[int]:
    """Numbers are given here, to what was not registered before."""
    known = known_manifests(tx, written)
    fresh: list[Written] = []
    numbers = []
    last = version.last_number
    for each in written:
        before = known.get(each.manifest_key)
        if before is None:
            last += 1
            fresh.append(replace(each, number=last))
            numbers.append(last)
        elif each.manifest is None or before.manifest_sha256 != each.manifest.digest:
            raise CommitDiffers(manifest=each.manifest_key, commit=before.number)
        else:
            numbers.append(before.number)
    if version.update_strategy is UpdateStrategy.REPLACE:
        model.refuse_overlaps([each.scope for each in fresh])
    refuse_moved(tx, version, fresh, relations)
    refuse_other_columns(version, fresh, relations)
    columns = version.columns
    for each in fresh:
        if each.manifest is not None and (each.manifest.objects or each.manifest.columns):
            columns = model.with_columns(columns, each.manifest.columns, version.unique_key)
    keep_columns(tx, version, columns)
    live = live_commits(tx, version, fresh)
    closes: list[tuple[int, int]] = []
    cuts: list[tuple[int, Cut]] = []
    added = []
    for place, each in enumerate(fresh):
        taken = model.replaced_by(
            live.get(place, []), each.scope, each.pins or (), version.update_strategy
        )
        closes += [(commit.number, each.number) for commit in taken.closed]
        if each.scope.range is not None:
            cut = Cut(each.number, *each.scope.range)
            cuts += [(commit.number, cut) for commit in taken.cut]
        newest = max((commit.number for commit in (*taken.closed, *taken.cut)), default=0)
        added.append((replace(each, replaces=newest), None))
    add_commits(tx, version, added, closes, now, cuts)
    return numbers


def _register_numbered(
    tx: Transaction, version: Version, written: Sequence[Written], now: datetime
) -> list[int]:
    """The data database has committed and numbered them: they are true, in whatever order."""
    for each in sorted(written, key=lambda each: each.number):
        known = tx.one(
            SQL["commit_by_number"],
            {"dataset_version": version.dataset_version, "number": each.number},
        )
        if known is not None:
            identity = (*vars(each.lease).values(), each.output_index, each.scope.key)
            if tuple(known) != identity:
                raise CommitDiffers(
                    f"Commit {each.number} is registered for task {known.task_id}, attempt "
                    f"{known.attempt}, scope {known.scope!r}.",
                    dataset_version=str(version.dataset_version),
                    commit=each.number,
                )
            continue
        around = tx.all(
            SQL["commits_around"],
            {
                "dataset_version": version.dataset_version,
                "number": each.number,
                **scope_params(each.scope),
            },
        )
        placed = model.place(
            map(commit_of, around), each.number, each.scope, version.update_strategy
        )
        closes = [(number, each.number) for number in placed.closes]
        add_commits(tx, version, [(each, placed.replaced_at)], closes, now)
    return [each.number for each in written]


def _advance(tx: Transaction, version: Version, numbers: Sequence[int]) -> list[Readable]:
    params: dict[str, Any] = {"dataset_version": version.dataset_version}
    if version.backend is Backend.S3:
        readable = max([version.readable, *numbers])
    else:
        rows = tx.all(SQL["unread_numbers"], params | {"readable": version.readable})
        readable = model.advance(version.readable, [row.number for row in rows])
    if readable == version.readable:
        return []
    rows = tx.all(SQL["became_readable"], params | {"after": version.readable, "up_to": readable})
    found = [_readable(version, row, at) for at, row in enumerate(rows, version.last_number + 1)]
    ends = [each.scope.range[1] for each in found if each.scope.range is not None]
    tx.run(
        SQL["advance"],
        params
        | {
            "last_number": found[-1].event_number,
            "readable": readable,
            "max_end": max(ends, default=None),
        },
    )
    return found


def _readable(version: Version, row: Row, event_number: int) -> Readable:
    replaced = set(row.replaced)
    if row.replaces and version.update_strategy is UpdateStrategy.REPLACE:
        # Rows with cursors of their own are replaced one by one: no commit was closed then.
        replaced.add(row.replaces)
    return Readable(
        version.dataset_version, row.number, event_number,
        Scope.parse(row.scope, row.range_start, row.range_end), row.task_id, row.attempt,
        tuple(sorted(replaced)),
    )  # fmt: skip
