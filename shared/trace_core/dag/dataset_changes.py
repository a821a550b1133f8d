"""What differs between the published names of two DAGs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from trace_core.dag.column_types import canonical_type
from trace_core.dag.field_changes import Differ, Effect, FieldChange, Kind
from trace_core.dag.model import Dag, Publication, TableSchema


@dataclass(frozen=True, slots=True)
class DatasetChange:
    """A published name that came, went, or says something else."""

    name: str
    kind: Kind
    fields: tuple[FieldChange, ...] = ()
    was: str | None = None
    """The name it had before, if it is the same outputs under another one."""


def compare_datasets(old: Dag, new: Dag) -> tuple[DatasetChange, ...]:
    before = {each.name: each for each in old.publications}
    after = {each.name: each for each in new.publications}
    gone = {each.parts: each for each in old.publications if each.name not in after}
    found = []
    for name, publication in after.items():
        was = before.get(name) or gone.pop(publication.parts, None)
        if was is None:
            found.append(DatasetChange(name, Kind.ADDED))
            continue
        fields = _compare(old, was, new, publication)
        if was.name != name:
            found.append(DatasetChange(name, Kind.RENAMED, fields, was.name))
        elif fields:
            found.append(DatasetChange(name, Kind.CHANGED, fields))
    found += [DatasetChange(each.name, Kind.REMOVED) for each in gone.values()]
    return tuple(found)


def _compare(
    old_dag: Dag, old: Publication, new_dag: Dag, new: Publication
) -> tuple[FieldChange, ...]:
    differ = Differ(("publish", new.name))
    differ.compare(
        ("from",), [str(part) for part in old.parts], [str(part) for part in new.parts], Effect.DATA
    )
    differ.compare(
        ("description",), old.description or None, new.description or None, Effect.NOTHING
    )
    differ.compare(("freshness",), _duration(old.freshness), _duration(new.freshness), Effect.RUN)
    if sorted(old.pii) != sorted(new.pii):
        differ.compare(("pii",), list(old.pii), list(new.pii), Effect.ACCESS)
    differ.compare(
        ("storage",),
        old.storage.value if old.storage else None,
        new.storage.value if new.storage else None,
        Effect.DATA,
    )
    differ.compare(("write_mode",), old.write_mode.value, new.write_mode.value, Effect.DATA)
    if old.schema and new.schema:
        _compare_schemas(old.schema, new.schema, differ)
    else:
        declared = [_declared(each) if each else None for each in (old.schema, new.schema)]
        differ.compare(("schema",), declared[0], declared[1], Effect.DATA)
    differ.compare(
        ("checks",),
        _checks(old_dag, old.name),
        _checks(new_dag, new.name),
        Effect.RUN,
        path=("checks", new.name),
    )
    return tuple(differ.found)


def _compare_schemas(old: TableSchema, new: TableSchema, differ: Differ) -> None:
    # Their order counts when a table is made; for one that exists it changes nothing.
    before, after = _declared(old), _declared(new)
    for name in dict.fromkeys([*before, *after]):
        field = ("schema", "columns", name)
        differ.compare(field, before.get(name), after.get(name), Effect.DATA)
    if sorted(old.unique) != sorted(new.unique):
        differ.compare(("schema", "unique"), list(old.unique), list(new.unique), Effect.DATA)
    if sorted(old.indexes) != sorted(new.indexes):
        differ.compare(
            ("schema", "indexes"),
            [list(index) for index in old.indexes],
            [list(index) for index in new.indexes],
            Effect.RUN,
        )


def _declared(schema: TableSchema) -> dict[str, str]:
    return {column.name: canonical_type(column.type) for column in schema.columns}


def _checks(dag: Dag, dataset: str) -> list[str] | None:
    """As people say them; all must hold, in whatever order they stand."""
    listed = sorted(
        f"{check.kind} {', '.join(check.columns)}"
        for check in dag.checks
        if check.dataset == dataset
    )
    return listed or None


def _duration(duration: timedelta | None) -> str | None:
    """As it is written in a file: the largest unit that needs no fraction."""
    if duration is None:
        return None
    seconds = int(duration.total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
