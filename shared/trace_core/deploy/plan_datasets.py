"""What an edit does to published datasets, and which of their readers it breaks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from trace_core.dag.changes import DagChanges
from trace_core.dag.dataset_changes import DatasetChange
from trace_core.dag.field_changes import FieldChange, Kind
from trace_core.dag.filters import fields_of
from trace_core.dag.model import Dag, JobInput, JobOutput, Publication, WriteMode
from trace_core.dag.places import Places
from trace_core.deploy.plan_facts import PlanFacts, Reader, ReaderKind
from trace_core.deploy.plan_model import DatasetAction, DatasetPlan, Edit, SchemaChange

_ACTIONS = {
    Kind.ADDED: DatasetAction.PUBLISHED,
    Kind.REMOVED: DatasetAction.HIDDEN,
    Kind.RENAMED: DatasetAction.RENAMED,
    Kind.CHANGED: DatasetAction.CHANGED,
}
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
}
_NUMERIC = re.compile(r"numeric\((\d+)(?:,(\d+))?\)")


@dataclass(frozen=True)
class DatasetPlans:
    """Everything that decides over the published names of one plan."""

    old: Dag | None
    new: Dag
    changes: DagChanges
    moved: Collection[str]
    """Jobs whose outputs get another version."""
    rebuilt: Collection[str]
    """Those of them that are built anew."""
    facts: PlanFacts
    places: Places | None

    def all(self) -> tuple[DatasetPlan, ...]:
        """Every name that this edit touches, in file order; hidden ones last."""
        changed = {each.name: each for each in self.changes.datasets}
        found = []
        for publication in self.new.publications:
            change = changed.pop(publication.name, None)
            plan = self._plan(publication, change)
            if change or plan.rebuilt_parts:
                found.append(plan)
        return (*found, *(self._hidden(change) for change in changed.values()))

    def _plan(self, publication: Publication, change: DatasetChange | None) -> DatasetPlan:
        direct = publication.write_mode is WriteMode.DIRECT
        moved = [str(part) for part in publication.parts if part.job in self.moved and direct]
        fields = change.fields if change else ()
        schema = [
            self._schema_change(publication, each) for each in fields if _is_schema(each.field)
        ]
        if change and change.was:
            schema.insert(0, self._gone(change.was, change.name, f"publish.{change.name}"))
        return DatasetPlan(
            name=publication.name,
            action=_ACTIONS[change.kind] if change else DatasetAction.REBUILT,
            was=change.was if change else None,
            parts=tuple(str(part) for part in publication.parts),
            rebuilt_parts=tuple(moved),
            edits=tuple(edit(each, self.places) for each in fields if not _is_schema(each.field)),
            schema=tuple(schema),
            jobs=tuple(self._jobs_reading(publication)),
            dags=_named(self._outside(publication.name, change), ReaderKind.JOB),
            alert_rules=_named(self._outside(publication.name, change), ReaderKind.ALERT_RULE),
        )

    def _hidden(self, change: DatasetChange) -> DatasetPlan:
        was = self.old.publication(change.name) if self.old else None
        readers = self.facts.readers.get(change.name, ())
        return DatasetPlan(
            name=change.name,
            action=DatasetAction.HIDDEN,
            was=None,
            parts=tuple(str(part) for part in was.parts) if was else (),
            rebuilt_parts=(),
            edits=(),
            schema=(self._gone(change.name, None, "publish"),),
            jobs=(),
            dags=_named(readers, ReaderKind.JOB),
            alert_rules=_named(readers, ReaderKind.ALERT_RULE),
        )

    def _outside(self, name: str, change: DatasetChange | None) -> tuple[Reader, ...]:
        was = self.facts.readers.get(change.was, ()) if change and change.was else ()
        return (*self.facts.readers.get(name, ()), *was)

    def _gone(self, name: str, new: str | None, place: str) -> SchemaChange:
        readers = tuple(str(reader) for reader in self.facts.readers.get(name, ()))
        why = (
            "is read by this name"
            if readers
            else "no job of another DAG and no alert rule reads it"
        )
        return SchemaChange("name", name, new, not readers, why, readers, (), place, None)

    def _schema_change(self, publication: Publication, change: FieldChange) -> SchemaChange:
        rebuilt = all(part.job in self.rebuilt for part in publication.parts)
        compatible, why = _judged(publication, change, rebuilt)
        breaks: tuple[str, ...] = ()
        may_break: tuple[str, ...] = ()
        if not compatible and change.field.startswith("schema"):
            breaks, may_break = self._broken(publication, change.path)
        return SchemaChange(
            change.field,
            change.old,
            change.new,
            compatible,
            why,
            breaks,
            may_break,
            change.place,
            self.places.line(change.path) if self.places else None,
        )

    def _broken(
        self, publication: Publication, path: tuple[str | int, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        column = str(path[4]) if len(path) > 4 else None
        breaks: list[str] = []
        may_break: list[str] = []
        for job, each in self._inputs_reading(publication):
            named = set(fields_of(each.where)) if each.where else set()
            (breaks if column in named else may_break).append(job)
        for reader in self.facts.readers.get(publication.name, ()):
            if reader.columns is None or column is None:
                may_break.append(str(reader))
            elif column in reader.columns:
                breaks.append(str(reader))
        certain = dict.fromkeys(breaks)
        return tuple(certain), tuple(
            each for each in dict.fromkeys(may_break) if each not in certain
        )

    def _jobs_reading(self, publication: Publication) -> Iterator[str]:
        yield from dict.fromkeys(job for job, _ in self._inputs_reading(publication))

    def _inputs_reading(self, publication: Publication) -> Iterator[tuple[str, JobInput]]:
        """By its name, or straight from one of its outputs."""
        for job in self.new.jobs:
            for each in job.inputs:
                by_output = isinstance(each.origin, JobOutput) and each.origin in publication.parts
                if by_output or str(each.origin) == publication.name:
                    yield job.name, each


def edit(change: FieldChange, places: Places | None) -> Edit:
    line = places.line(change.path) if places else None
    return Edit(change.field, change.old, change.new, change.effect, change.place, line)


def _is_schema(field: str) -> bool:
    return field.startswith("schema") or field in ("storage", "write_mode")


def _named(readers: Iterable[Reader], kind: ReaderKind) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            str(reader) if reader.dag else reader.name for reader in readers if reader.kind is kind
        )
    )


def _judged(publication: Publication, change: FieldChange, rebuilt: bool) -> tuple[bool, str]:
    """Whether readers survive it, and in words why."""
    buffered = publication.write_mode is WriteMode.BUFFERED
    match change.field.split("."):
        case ["write_mode"]:
            return False, "the rows so far are not taken over: a buffered table is not rebuilt"
        case ["storage"] if rebuilt:
            return True, "moves with the rebuild; readers see the same name"
        case ["storage"]:
            jobs = ", ".join(dict.fromkeys(part.job for part in publication.parts))
            return False, f"the rows stay where they are until {jobs} is rebuilt: edit that job too"
        case ["schema"]:
            declared = "are declared now" if change.new else "are no longer declared"
            return True, f"its columns {declared}; the rows stay as they are"
        case ["schema", "indexes"]:
            return True, "changes how fast it is read, not what is read"
        case ["schema", "unique"] if buffered:
            return False, "repeated rows are dropped by it, and a buffered table is not rebuilt"
        case ["schema", "unique"]:
            return True, "holds for what is built from now on"
    if change.old is None:
        past = "" if rebuilt and not buffered else "; empty in rows that were written before"
        return True, f"a new column{past}"
    if change.new is None:
        return False, "the column is gone"
    if buffered:
        return False, "a buffered table only gains columns"
    if widens(change.old, change.new):
        return True, "every value so far fits the new type"
    return False, "not every value so far fits the new type"


def widens(old: str, new: str) -> bool:
    """Whether every value of the old type is one of the new type, unchanged."""
    if new in _WIDER.get(old, ()) or (old.startswith("numeric") and new == "numeric"):
        return True
    wider = _NUMERIC.fullmatch(new)
    if not wider:
        return False
    precision, scale = int(wider[1]), int(wider[2] or 0)
    if old in _DIGITS:
        return precision - scale >= _DIGITS[old]
    narrow = _NUMERIC.fullmatch(old)
    if not narrow:
        return False
    old_scale = int(narrow[2] or 0)
    return scale >= old_scale and precision - scale >= int(narrow[1]) - old_scale
