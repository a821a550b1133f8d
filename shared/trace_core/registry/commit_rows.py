"""Commits as rows: what is read and written of them, under the locks that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, Transaction, as_json
from trace_core.kernel.scopes import Scope
from trace_core.registry import model
from trace_core.storage.model import Backend, Cut, Manifest, Pin

SQL = Statements("trace_core.registry", "commits.sql")


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


def lock_versions(tx: Transaction, versions: Iterable[UUID]) -> dict[UUID, Version]:
    params = {"versions": Uuids(sorted(set(versions)))}
    tx.all(SQL["lock_counters"], params)
    return {row.dataset_version: _version(row) for row in tx.all(SQL["versions"], params)}


def pins_of(tx: Transaction, lease: Lease) -> tuple[Pin, ...]:
    rows = tx.all(SQL["pins_of_lease"], vars(lease))
    return tuple(Pin(row.dataset_uuid, row.dataset_version, row.number, row.swap) for row in rows)


def known_manifests(tx: Transaction, written: Sequence[Written]) -> dict[str | None, Row]:
    known: dict[str | None, Row] = {}
    for lease in {each.lease for each in written}:
        for row in tx.all(SQL["commits_of_lease"], vars(lease)):
            known[row.manifest_key] = row
    return known


def live_commits(
    tx: Transaction, version: Version, written: Sequence[Written]
) -> dict[int, list[model.Commit]]:
    if not written or version.update_strategy is UpdateStrategy.APPEND:
        return {}
    return live_meeting(tx, version.dataset_version, [each.scope for each in written])


def live_meeting(
    tx: Transaction, dataset_version: UUID, wanted: Sequence[Scope]
) -> dict[int, list[model.Commit]]:
    """Of each scope, by its place, the live commits that it may meet."""
    live: dict[int, list[model.Commit]] = {}
    scopes = [scope_params(each) for each in wanted]
    rows = tx.all(
        SQL["live_commits"],
        {
            "places": list(range(len(wanted))),
            "versions": Uuids([dataset_version] * len(wanted)),
            "scopes": [each["scope"] for each in scopes],
            "starts": Bigints([each["range_start"] for each in scopes]),
            "ends": Bigints([each["range_end"] for each in scopes]),
        },
    )
    for row in rows:
        live.setdefault(row.place, []).append(commit_of(row))
    return live


def keep_columns(tx: Transaction, version: Version, columns: tuple[Column, ...] | None) -> None:
    if columns is not None and columns != version.columns:
        stored = [{"name": each.name, "type": each.type} for each in columns]
        tx.run(
            SQL["set_columns"],
            {"dataset_version": version.dataset_version, "columns": as_json(stored)},
        )


def add_commits(
    tx: Transaction,
    version: Version,
    added: Sequence[tuple[Written, int | None]],
    closes: Sequence[tuple[int, int]],
    now: datetime,
    cuts: Sequence[tuple[int, Cut]] = (),
) -> None:
    if not added:
        return
    all_of = [each for each, _ in added]
    scopes = [scope_params(each.scope) for each in all_of]
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
            "cursor_columns": [each.cursor_column if each else None for each in manifests],
            "row_counts": Bigints(
                [each.manifest.rows if each.manifest else each.row_count for each in all_of]
            ),
        },
    )
    close_commits(tx, version.dataset_version, closes)
    cut_commits(tx, version.dataset_version, cuts)


def close_commits(
    tx: Transaction, dataset_version: UUID, closes: Sequence[tuple[int, int]]
) -> None:
    """Each named by its number, with the number that it is no longer valid at."""
    if closes:
        tx.run(
            SQL["close_commits"],
            {
                "dataset_version": dataset_version,
                "numbers": Bigints([number for number, _ in closes]),
                "ats": Bigints([at for _, at in closes]),
            },
        )


def cut_commits(tx: Transaction, dataset_version: UUID, cuts: Sequence[tuple[int, Cut]]) -> None:
    """Take ranges from earlier commits, each named by its number."""
    if not cuts:
        return
    tx.run(
        SQL["cut_commits"],
        {
            "dataset_version": dataset_version,
            "numbers": Bigints([number for number, _ in cuts]),
            "ats": Bigints([cut.at for _, cut in cuts]),
            "starts": Bigints([cut.start for _, cut in cuts]),
            "ends": Bigints([cut.end for _, cut in cuts]),
        },
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def scope_params(scope: Scope) -> dict[str, Any]:
    start, end = scope.range or (None, None)
    return {"scope": scope.key, "range_start": start, "range_end": end}


def commit_of(row: Row) -> model.Commit:
    return model.Commit(
        row.number,
        Scope.parse(row.scope, row.range_start, row.range_end),
        tuple(Pin.parse(each) for each in row.input_pins),
        row.replaced_at,
        row.cursor_column,
        tuple(Cut(*each) for each in row.cuts or ()),
    )


def _version(row: Row) -> Version:
    columns = row.columns
    return Version(
        row.dataset_version, row.dataset_uuid, row.org_id, Backend(row.backend),
        UpdateStrategy(row.update_strategy), tuple(row.unique_key),
        None if columns is None else tuple(Column(each["name"], each["type"]) for each in columns),
        row.last_number, row.readable,
    )  # fmt: skip
