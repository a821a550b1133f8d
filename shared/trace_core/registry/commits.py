"""Register commits: what was written becomes what can be read.

Callers hold the fence of the attempt that wrote, or know that the data database has checked it. All
of it happens under the lock of the versions' counters, so that the order of numbers is the order of
commits, and nothing is announced before every commit with a smaller number can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, Transaction, as_json
from trace_core.kernel.errors import Conflict, NotFound
from trace_core.kernel.scopes import Scope
from trace_core.registry import model
from trace_core.storage.model import Backend, Manifest, Pin

SQL = Statements("trace_core.registry", "commits.sql")
_NAMED_MAX = 5


class CommitDiffers(Conflict):
    """Another commit is registered in that place."""

    code = "CommitDiffers"


@dataclass(frozen=True)
class Version:
    """A dataset version as it is now; its counter is locked if the caller asked for that."""

    dataset_version: UUID
    dataset_uuid: UUID
    org_id: UUID
    backend: Backend
    update_strategy: UpdateStrategy
    unique_key: tuple[str, ...]
    columns: tuple[Column, ...] | None
    last_number: int
    readable: int


@dataclass(frozen=True)
class Lease:
    """Who wrote: one lease of one task."""

    task_id: UUID
    attempt: int
    lease_sequence: int


@dataclass(frozen=True)
class Written:
    """One output of a lease, ready to be registered."""

    dataset_version: UUID
    scope: Scope
    lease: Lease
    output_index: int
    row_count: int | None = None
    manifest_key: str | None = None
    manifest: Manifest | None = None
    """Of the S3 layout: its number is given here."""
    number: int = 0
    """Of the data database, where it was committed under this number."""
    replaces: int = 0
    pins: tuple[Pin, ...] | None = None
    """As they were recorded with the commit; None reads those of the lease."""


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


def lock_versions(tx: Transaction, versions: Iterable[UUID]) -> dict[UUID, Version]:
    params = {"versions": Uuids(sorted(set(versions)))}
    tx.all(SQL["lock_counters"], params)
    return {row.dataset_version: _version(row) for row in tx.all(SQL["versions"], params)}


def pins_of(tx: Transaction, lease: Lease) -> tuple[Pin, ...]:
    rows = tx.all(SQL["pins_of_lease"], vars(lease))
    return tuple(Pin(row.dataset_uuid, row.dataset_version, row.number, row.swap) for row in rows)


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
    tx: Transaction, versions: dict[UUID, Version], written: Sequence[Written], now: datetime
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
            raise NotFound(dataset_version=str(dataset_version))
        own = [
            (at, each) for at, each in enumerate(found) if each.dataset_version == dataset_version
        ]
        one = _register_manifests if version.backend is Backend.S3 else _register_numbered
        given = one(tx, version, [each for _, each in own], now)
        numbers.update(zip((at for at, _ in own), given, strict=True))
        readable += _advance(tx, version, given)
    return Registered(readable, [numbers[at] for at in range(len(found))])


def _register_manifests(
    tx: Transaction, version: Version, written: Sequence[Written], now: datetime
) -> list[int]:
    """Numbers are given here, to what was not registered before."""
    known = _known_manifests(tx, written)
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
    columns = version.columns
    for each in fresh:
        if each.manifest is not None and (each.manifest.objects or each.manifest.columns):
            columns = model.with_columns(columns, each.manifest.columns, version.unique_key)
    _keep_columns(tx, version, columns)
    live = _live_commits(tx, version, fresh)
    closes: list[tuple[int, int]] = []
    added = []
    for place, each in enumerate(fresh):
        closed = model.replaced_by(
            live.get(place, []), each.scope, each.pins or (), version.update_strategy
        )
        closes += [(commit.number, each.number) for commit in closed]
        newest = max((commit.number for commit in closed), default=0)
        added.append((replace(each, replaces=newest), None))
    _add(tx, version, added, closes, now)
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
                **_scope_params(each.scope),
            },
        )
        placed = model.place(map(_commit, around), each.number, each.scope, version.update_strategy)
        closes = [(number, each.number) for number in placed.closes]
        _add(tx, version, [(each, placed.replaced_at)], closes, now)
    return [each.number for each in written]


def _keep_columns(tx: Transaction, version: Version, columns: tuple[Column, ...] | None) -> None:
    if columns is not None and columns != version.columns:
        stored = [{"name": each.name, "type": each.type} for each in columns]
        tx.run(
            SQL["set_columns"],
            {"dataset_version": version.dataset_version, "columns": as_json(stored)},
        )


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


def _known_manifests(tx: Transaction, written: Sequence[Written]) -> dict[str | None, Row]:
    known: dict[str | None, Row] = {}
    for lease in {each.lease for each in written}:
        for row in tx.all(SQL["commits_of_lease"], vars(lease)):
            known[row.manifest_key] = row
    return known


def _live_commits(
    tx: Transaction, version: Version, written: Sequence[Written]
) -> dict[int, list[model.Commit]]:
    live: dict[int, list[model.Commit]] = {}
    if not written or version.update_strategy is UpdateStrategy.APPEND:
        return live
    scopes = [_scope_params(each.scope) for each in written]
    rows = tx.all(
        SQL["live_commits"],
        {
            "places": list(range(len(written))),
            "versions": Uuids([version.dataset_version] * len(written)),
            "scopes": [each["scope"] for each in scopes],
            "starts": Bigints([each["range_start"] for each in scopes]),
            "ends": Bigints([each["range_end"] for each in scopes]),
        },
    )
    for row in rows:
        live.setdefault(row.place, []).append(_commit(row))
    return live


def _add(
    tx: Transaction,
    version: Version,
    added: Sequence[tuple[Written, int | None]],
    closes: Sequence[tuple[int, int]],
    now: datetime,
) -> None:
    if not added:
        return
    all_of = [each for each, _ in added]
    scopes = [_scope_params(each.scope) for each in all_of]
    manifests = [each.manifest for each in all_of]
    tx.run(
        SQL["add_commits"],
        {
            "dataset_version": version.dataset_version,
            "now": now,
            "numbers": Bigints([each.number for each in all_of]),
            "scopes": [each["scope"] for each in scopes],
            "starts": Bigints([each["range_start"] for each in scopes]),
            "ends": Bigints([each["range_end"] for each in scopes]),
            "replaced_ats": Bigints([replaced_at for _, replaced_at in added]),
            "replaces": Bigints([each.replaces for each in all_of]),
            "task_ids": Uuids([each.lease.task_id for each in all_of]),
            "attempts": [each.lease.attempt for each in all_of],
            "lease_sequences": [each.lease.lease_sequence for each in all_of],
            "output_indexes": [each.output_index for each in all_of],
            "input_pins": [_json([pin.fields() for pin in each.pins or ()]) for each in all_of],
            "manifest_keys": [each.manifest_key for each in all_of],
            "manifest_sha256s": [each.digest if each else None for each in manifests],
            "objects": [
                _json([stored.fields() for stored in each.objects]) if each else None
                for each in manifests
            ],
            "bytes": Bigints([each.bytes if each else None for each in manifests]),
            "row_counts": Bigints(
                [each.manifest.rows if each.manifest else each.row_count for each in all_of]
            ),
        },
    )
    if closes:
        tx.run(
            SQL["close_commits"],
            {
                "dataset_version": version.dataset_version,
                "numbers": Bigints([number for number, _ in closes]),
                "ats": Bigints([at for _, at in closes]),
            },
        )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _scope_params(scope: Scope) -> dict[str, Any]:
    start, end = scope.range or (None, None)
    return {"scope": scope.key, "range_start": start, "range_end": end}


def _commit(row: Row) -> model.Commit:
    return model.Commit(
        row.number,
        Scope.parse(row.scope, row.range_start, row.range_end),
        tuple(Pin.parse(each) for each in row.input_pins),
        row.replaced_at,
    )


def _version(row: Row) -> Version:
    columns = row.columns
    return Version(
        row.dataset_version, row.dataset_uuid, row.org_id, Backend(row.backend),
        UpdateStrategy(row.update_strategy), tuple(row.unique_key),
        None if columns is None else tuple(Column(each["name"], each["type"]) for each in columns),
        row.last_number, row.readable,
    )  # fmt: skip
