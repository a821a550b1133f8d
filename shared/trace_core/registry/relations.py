"""Published datasets of several parts, from hot to cold: what a commit to one does to the others.

A range that a colder part holds is read from there only. So a commit to a hotter part takes its
range from the colder ones, in the transaction in which pins reach it; and a commit that moves rows
from a hotter part is refused when they are not what it has read any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.arrays import Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Transaction
from trace_core.kernel.errors import Invalid, Superseded, Unavailable
from trace_core.kernel.ids import DagId
from trace_core.kernel.scopes import Scope
from trace_core.registry import model
from trace_core.registry.commit_rows import (
    SQL as COMMITS,
)
from trace_core.registry.commit_rows import (
    Version,
    Written,
    close_commits,
    commit_of,
    cut_commits,
    live_meeting,
    lock_versions,
    scope_params,
)
from trace_core.storage.model import Backend, Cut, left_of
from trace_core.storage.scopes import EVERY_CURSOR, WHOLE, Range, inside, without

SQL = Statements("trace_core.registry", "relations.sql")


@dataclass(frozen=True)
class Other:
    """Another part of the relation that a version is a part of."""

    dataset_version: UUID
    dataset_uuid: UUID
    is_colder: bool
    holds: bool
    """What it holds is read from nowhere else."""
    in_objects: bool = False
    columns: tuple[Column, ...] | None = None
    """Nothing as long as nobody has said or written any."""


@dataclass(frozen=True)
class Relations:
    """The other parts of each version that is written to, all of them current and locked."""

    others: Mapping[UUID, tuple[Other, ...]]
    datasets: Mapping[UUID, UUID]
    """Of each version that has others."""

    def hotter(self, dataset_version: UUID) -> list[Other]:
        return [each for each in self.others.get(dataset_version, ()) if not each.is_colder]

    def colder(self, dataset_version: UUID) -> list[Other]:
        return [
            each for each in self.others.get(dataset_version, ()) if each.is_colder and each.holds
        ]


ALONE = Relations({}, {})


def lock_with_relations(
    tx: Transaction, versions: Iterable[UUID]
) -> tuple[dict[UUID, Version], Relations]:
    """Lock versions, and with them the other parts of their relations, all in the order of ids."""
    own = sorted(set(versions))
    before = _relations(tx, own).others
    wanted = {*own, *(other.dataset_version for each in before.values() for other in each)}
    locked = lock_versions(tx, wanted)
    found = _relations(tx, own)
    after = [other.dataset_version for each in found.others.values() for other in each]
    if any(version not in locked for version in after):
        # A switch came between, and locks are taken in the order of ids or not at all.
        raise Unavailable("What is published under one name is just being switched; again.")
    return locked, found


def refuse_moved(
    tx: Transaction, version: Version, written: Sequence[Written], relations: Relations
) -> None:
    """Refuse what colder parts may not take: rows that changed since they were read, and rows that
    could not be taken from again one by one."""
    hotter = {each.dataset_version: each for each in relations.hotter(version.dataset_version)}
    if not hotter or version.update_strategy is UpdateStrategy.APPEND:
        return
    for each in written:
        named = each.manifest is None or each.manifest.cursor_column is not None
        if each.scope.range is not None and not named and each.manifest and each.manifest.objects:
            raise Invalid(
                "A colder part of a published dataset names its cursor column, so that a rewrite "
                "of a smaller range can take its rows: write them with `cursor_column`.",
                field="cursor_column",
            )
        for pin in each.pins or ():
            if pin.dataset_version not in hotter:
                continue
            params = {"dataset_version": pin.dataset_version, "number": pin.number}
            changed = tx.one(SQL["changed_after"], params | scope_params(each.scope))
            if changed is not None:
                raise Superseded(scope=each.scope.fields(), commit=changed.number)
            _refuse_doubled(tx, each, hotter[pin.dataset_version])
        _refuse_hidden(tx, each, hotter)


def _refuse_doubled(tx: Transaction, written: Written, hot: Other) -> None:
    """A range hides the moved rows where they come from, and commits without cursors only as a
    whole: whatever stays to be seen there would be read twice."""
    if written.manifest is None or not written.manifest.rows:
        return
    if written.scope.range is None:
        raise Invalid(
            "Rows that are moved from another part of the published dataset would be read from "
            "both: only a range hides them there. Write them with a range as their scope, or "
            "publish them under a name of their own.",
            field="scope",
        )
    params = {"dataset_version": hot.dataset_version, **scope_params(written.scope)}
    straddling = tx.one(SQL["straddling"], params) if hot.in_objects else None
    if straddling is not None:
        raise Invalid(
            f"Range {written.scope.key} holds only a part of the rows of "
            f"{straddling.scope or 'all'} (commit {straddling.number}), which cannot be told apart "
            "there and would be read twice. Move the whole of it, or write it with "
            "`cursor_column`.",
            field="scope",
        )


def _refuse_hidden(tx: Transaction, written: Written, hotter: Mapping[UUID, Other]) -> None:
    """Moved rows hide whatever hotter parts have of their range: also what was never read from the
    part that they come from, because it was not there."""
    made_from = {pin.dataset_version for pin in written.pins or ()} & set(hotter)
    hidden = [each for each in hotter.values() if each.holds]
    if not made_from or written.scope.range is None:
        return
    met = {
        each: _ranges(tx, each.dataset_version, written.scope)
        for each in hidden
        if each.dataset_version not in made_from
    }
    if not any(met.values()):
        return
    moved = [found for each in made_from for found in _held(tx, each, written.scope.range)]
    missed = without([written.scope.range], moved)
    if any(inside(missed, each) for ranges in met.values() for each in ranges):
        raise Invalid(
            f"Some of range {written.scope.key} lies in another part of the published dataset "
            "alone, and these rows, which were not made from that part, would hide it. Read that "
            "part as well, or start the job for ranges of the part that it reads.",
            field="scope",
        )


def _ranges(tx: Transaction, dataset_version: UUID, scope: Scope) -> list[Range]:
    """What a version holds of a range."""
    assert scope.range is not None  # noqa: S101
    found: list[Range] = []
    for commit in live_meeting(tx, dataset_version, [scope]).get(0, ()):
        left = left_of(commit.scope, commit.cuts) or (EVERY_CURSOR,)
        found += inside(left, scope.range)
    return found


def _held(tx: Transaction, dataset_version: UUID, wanted: Range) -> list[Range]:
    """The same of a version whose live commits may lie one upon the other: with rows of their own
    cursors, tables know which of them count."""
    start, end = wanted
    params = {"dataset_version": dataset_version, "range_start": start, "range_end": end}
    found: list[Range] = []
    for row in tx.all(SQL["held"], params):
        commit = commit_of(row)
        found += inside(left_of(commit.scope, commit.cuts) or (EVERY_CURSOR,), wanted)
    return found


def refuse_other_columns(
    version: Version, written: Sequence[Written], relations: Relations
) -> None:
    """Refuse rows that do not fit below those of the other parts: nobody could read them as one."""
    for other in relations.others.get(version.dataset_version, ()):
        for each in written:
            if each.manifest is None or other.columns is None:
                continue
            given = model.names(each.manifest.columns)
            if given != model.names(other.columns):
                raise model.ColumnsDiffer(
                    "The parts of a published dataset have the same columns. Another part has "
                    f"{model.names(other.columns)}; this commit {given}. Cast what differs, or "
                    "publish it under a name of its own.",
                    columns=given,
                    expected=model.names(other.columns),
                )


def take_from_colder(
    tx: Transaction, relations: Relations, readable: Mapping[UUID, Sequence[Scope]]
) -> None:
    """What pins reach from now on of each version is no longer read from its colder parts."""
    for hot, scopes in readable.items():
        placed = [scope for scope in scopes if scope == WHOLE or scope.range is not None]
        for cold in relations.colder(hot) if placed else ():
            met: dict[int, model.Commit] = {}
            taken: dict[int, list[Range]] = {}
            for place, commits in live_meeting(tx, cold.dataset_version, placed).items():
                for commit in commits:
                    if _loses(commit, placed[place], relations.datasets[hot], hot):
                        met[commit.number] = commit
                        taken.setdefault(commit.number, []).append(
                            placed[place].range or EVERY_CURSOR
                        )
            _take(tx, cold.dataset_version, hot, met, taken)


def settle(tx: Transaction, dag_id: DagId) -> None:
    """After a switch: parts that were not read together before have each gone their way. The caller
    holds the counters of all of them."""
    taken: dict[tuple[UUID, UUID], dict[int, list[Range]]] = {}
    for name in ("rewritten_since", "rewritten_whole_since"):
        for row in tx.all(SQL[name], {"dag_id": dag_id}):
            entries = taken.setdefault((row.cold, row.hot), {})
            entries.setdefault(row.number, []).append((row.range_start, row.range_end))
    for (cold, hot), ranges in taken.items():
        rows = tx.all(SQL["commits"], {"dataset_version": cold, "numbers": sorted(ranges)})
        _take(tx, cold, hot, {row.number: commit_of(row) for row in rows}, ranges)


def _take(
    tx: Transaction,
    cold: UUID,
    hot: UUID,
    commits: Mapping[int, model.Commit],
    taken: Mapping[int, Sequence[Range]],
) -> None:
    """Under a number of the colder part of its own, which no commit has."""
    closes: list[int] = []
    cuts: list[tuple[int, Range]] = []
    for number, ranges in taken.items():
        commit = commits[number]
        if commit.replaced_at is not None:
            continue
        if commit.cursor_column is None:
            # It goes as a whole, if the hotter part has all that it was made from.
            if any(pin.dataset_version == hot for pin in commit.pins):
                closes.append(number)
            continue
        left = left_of(commit.scope, commit.cuts) or (commit.scope.range or EVERY_CURSOR,)
        met = [each for each in dict.fromkeys(ranges) if inside(left, each)]
        if not without(left, met):
            closes.append(number)
        else:
            cuts += [(number, each) for each in met]
    if not closes and not cuts:
        return
    (counter,) = tx.all(COMMITS["versions"], {"versions": Uuids([cold])})
    at = counter.last_number + 1
    tx.run(
        COMMITS["advance"],
        {"dataset_version": cold, "last_number": at, "readable": at, "max_end": None},
    )
    close_commits(tx, cold, [(number, at) for number in closes])
    cut_commits(tx, cold, [(number, Cut(at, *each)) for number, each in cuts])


def _loses(commit: model.Commit, scope: Scope, dataset: UUID, hot: UUID) -> bool:
    """Whether a colder commit gives way to that scope of the hotter part. All of the hotter part
    is all that was moved from it, and nothing of what was filled in from elsewhere."""
    if scope.range is None:
        moved = any(pin.dataset_version == hot for pin in commit.pins)
        return moved and commit.scope.range is not None
    return not _of_another_version(commit, dataset, hot)


def _of_another_version(commit: model.Commit, dataset: UUID, hot: UUID) -> bool:
    """Whether it was made from another generation of the hotter part than this one."""
    return any(pin.dataset_uuid == dataset and pin.dataset_version != hot for pin in commit.pins)


def _relations(tx: Transaction, versions: Sequence[UUID]) -> Relations:
    found: dict[UUID, list[Other]] = {}
    datasets: dict[UUID, UUID] = {}
    for row in tx.all(SQL["others"], {"versions": Uuids(versions)}):
        in_objects = row.backend == Backend.S3
        holds = in_objects and row.update_strategy == UpdateStrategy.REPLACE
        columns = tuple(Column(each["name"], each["type"]) for each in row.columns or ())
        other = Other(
            row.other, row.other_dataset, row.other_part > row.part, holds, in_objects,
            columns or None,
        )  # fmt: skip
        found.setdefault(row.dataset_version, []).append(other)
        datasets[row.dataset_version] = row.dataset_uuid
    return Relations({version: tuple(each) for version, each in found.items()}, datasets)
