"""What is stored of a dataset, and what a reader may see of it: values, no I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.storage.errors import PartialOverlap
from trace_core.storage.scopes import EVERY_CURSOR, Range, covers, overlap, scope_name, without

MANIFEST_FORMAT = 1
Statistic = int | str
"""The least or greatest value of a column in one object: whole numbers as they are, other values
as text (see `storage/rows.py`)."""


class Backend(StrEnum):
    S3 = "s3"
    POSTGRES = "postgres"
    CONTROL = "control"
    """Announcements alone; there are no rows."""


@dataclass(frozen=True)
class Pin:
    """A dataset as it was after one commit: what readers get, and what can be read again."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    number: int
    """The commit; 0 is the version before its first one."""
    swap: int
    """How often the dataset's current pointer had moved when the pin was taken."""

    def later_than(self, other: Pin) -> bool:
        """A moved pointer is later than any commit under the one before."""
        if self.dataset_uuid != other.dataset_uuid:
            raise ValueError("pins of two datasets have no order")
        return (self.swap, self.number) > (other.swap, other.number)

    def fields(self) -> dict[str, Any]:
        return {
            "dataset_uuid": str(self.dataset_uuid),
            "dataset_version": str(self.dataset_version),
            "number": self.number,
            "swap": self.swap,
        }

    @staticmethod
    def parse(fields: Mapping[str, Any]) -> Pin:
        return Pin(
            DatasetUuid(UUID(fields["dataset_uuid"])),
            DatasetVersion(UUID(fields["dataset_version"])),
            int(fields["number"]),
            int(fields["swap"]),
        )


def any_later(stored: Iterable[Pin], ours: Iterable[Pin]) -> bool:
    """Was something made from a later pin of any input that we have too?"""
    own = {pin.dataset_uuid: pin for pin in ours}
    return any(pin.dataset_uuid in own and pin.later_than(own[pin.dataset_uuid]) for pin in stored)


@dataclass(frozen=True)
class StoredObject:
    """One immutable object with rows of one commit."""

    key: str
    bytes: int
    rows: int
    sha256: str
    minimum: Mapping[str, Statistic]
    maximum: Mapping[str, Statistic]

    def fields(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "bytes": self.bytes,
            "rows": self.rows,
            "sha256": self.sha256,
            "minimum": dict(self.minimum),
            "maximum": dict(self.maximum),
        }


@dataclass(frozen=True)
class ManifestIdentity:
    """Whose output a manifest describes."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    task_id: TaskId
    attempt: int
    lease_sequence: int
    output_index: int
    scope: Scope


@dataclass(frozen=True)
class Manifest:
    """Everything that one attempt wrote for one scope of one output."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersion
    task_id: TaskId
    attempt: int
    lease_sequence: int
    output_index: int
    scope: Scope
    columns: tuple[Column, ...]
    objects: tuple[StoredObject, ...]
    cursor_column: str | None = None
    """The column that places each row inside the scope, if the writer names one: then a later
    rewrite may take a smaller range out of it, and a read of a range gives exactly its rows."""

    @property
    def identity(self) -> ManifestIdentity:
        return ManifestIdentity(
            self.dataset_uuid,
            self.dataset_version,
            self.task_id,
            self.attempt,
            self.lease_sequence,
            self.output_index,
            self.scope,
        )

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.objects)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.objects)

    def fields(self) -> dict[str, Any]:
        # Left out when there is none, as in manifests from before there was one.
        named = {} if self.cursor_column is None else {"cursor_column": self.cursor_column}
        return {
            "format": MANIFEST_FORMAT,
            "dataset_uuid": str(self.dataset_uuid),
            "dataset_version": str(self.dataset_version),
            "task_id": str(self.task_id),
            "attempt": self.attempt,
            "lease_sequence": self.lease_sequence,
            "output_index": self.output_index,
            "scope": self.scope.fields(),
            "columns": [{"name": each.name, "type": each.type} for each in self.columns],
            "objects": [each.fields() for each in sorted(self.objects, key=lambda o: o.key)],
            **named,
        }

    def canonical(self) -> str:
        """The one JSON text of this manifest."""
        return canonical_json(self.fields())

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


@dataclass(frozen=True)
class Cut:
    """From commit `at` on, rows of an earlier commit with cursors in this range count no more."""

    at: int
    start: int
    end: int


@dataclass(frozen=True)
class Entry:
    """One committed manifest of an S3-layout version."""

    number: int
    replaced_at: int | None
    """The commit that took its place; the entry is valid up to it, without it."""
    scope: Scope
    objects: tuple[StoredObject, ...]
    cursor_column: str | None = None
    cuts: tuple[Cut, ...] = ()
    """By later commits of smaller ranges; the objects stay as they are."""

    def valid_at(self, number: int) -> bool:
        return self.number <= number and (self.replaced_at is None or number < self.replaced_at)

    def left_at(self, number: int) -> tuple[Range, ...]:
        """The cursors that it still speaks for at a pin; nothing for a scope without cursors."""
        return left_of(self.scope, self.cuts, number)


def left_of(scope: Scope, cuts: Iterable[Cut], number: int | None = None) -> tuple[Range, ...]:
    """What cuts have left of a scope: at a commit, or after the last one."""
    taken = [(cut.start, cut.end) for cut in cuts if number is None or cut.at <= number]
    if scope.range is None and not taken:
        return ()
    return without([scope.range or EVERY_CURSOR], taken)


class Live(Protocol):
    """A commit that nothing has taken the place of."""

    @property
    def number(self) -> int: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def cursor_column(self) -> str | None: ...
    @property
    def cuts(self) -> tuple[Cut, ...]: ...


LiveT = TypeVar("LiveT", bound=Live)


@dataclass(frozen=True)
class Taken(Generic[LiveT]):
    """What a `replace` commit takes from those before it."""

    closed: tuple[LiveT, ...]
    """Of these nothing is left."""
    cut: tuple[LiveT, ...]
    """These go on without its range."""


def meets(live: Live, scope: Scope) -> bool:
    """Does anything that is left of it lie in the scope?"""
    if not overlap(live.scope, scope):
        return False
    if scope.range is None or not live.cuts:
        return True
    return any(overlap(Scope.of_range(*each), scope) for each in left_of(live.scope, live.cuts))


def taken_by(live: Iterable[LiveT], scope: Scope) -> Taken[LiveT]:
    """What a commit of that scope takes. Rows with cursors of their own are taken one by one; a
    commit without them goes as a whole, and to cut it is refused."""
    closed, cut = [], []
    for each in live:
        if not meets(each, scope):
            continue
        if covers(scope, each.scope):
            closed.append(each)
        elif each.cursor_column is None or scope.range is None:
            raise PartialOverlap(
                f"Scope {scope_name(scope)} cuts through {scope_name(each.scope)} (commit "
                f"{each.number}), whose writer named no cursor column: it can only be replaced "
                "as a whole.",
                scope=scope.fields(),
                earlier=each.scope.fields(),
                number=each.number,
            )
        elif without(left_of(each.scope, each.cuts) or [EVERY_CURSOR], [scope.range]):
            cut.append(each)
        else:
            closed.append(each)
    return Taken(tuple(closed), tuple(cut))


@dataclass(frozen=True)
class PinnedPart:
    """One dataset at a pin, with all that is needed to read it."""

    pin: Pin
    backend: Backend
    update_strategy: UpdateStrategy
    unique_key: tuple[str, ...]
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...] = ()
    """Of the S3 layout; schema and table of Postgres follow from the pin."""
    cursor_column: str | None = None
    """The column that places each row of a Postgres part inside its scope, if its writers name one:
    then a read of a range gives exactly the rows in it, otherwise all rows of the commits that
    meet it. Of the S3 layout each entry says so for itself."""

    @property
    def schema_name(self) -> str:
        return schema_name(self.pin.dataset_uuid)

    @property
    def table_name(self) -> str:
        return table_name(self.pin.dataset_version)

    def live_entries(self) -> list[Entry]:
        """Those that the pin shows, in the order of their commits."""
        found = [each for each in self.entries if each.valid_at(self.pin.number)]
        return sorted(found, key=lambda each: each.number)


# Identifiers of Postgres hold 63 bytes; a UUID in hexadecimal needs 32 of them.
def schema_name(dataset_uuid: UUID) -> str:
    return f"dataset_{dataset_uuid.hex}"


def table_name(dataset_version: UUID) -> str:
    return f"v_{dataset_version.hex}"


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
