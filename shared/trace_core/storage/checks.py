"""Checks of a DAG file on the rows of a candidate, before it becomes current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_core.dag.model import Check, CheckKind
from trace_core.kernel.errors import Invalid
from trace_core.storage.model import PinnedPart
from trace_core.storage.reader import PinnedReader
from trace_core.storage.row_sql import RowSql, quoted, row_sql
from trace_core.storage.rows import is_exact_text, numeric_size

EXAMPLES_MAX = 5
_WHOLE_TYPES = frozenset({"smallint", "integer", "bigint"})


@dataclass(frozen=True)
class Verdict:
    """What a check found."""

    check: Check
    rows: int
    """How many were looked at."""
    failures: int = 0
    """Gaps, keys that stand more than once, or missing values."""
    reason: str | None = None
    """What failed, in a sentence; None when the check holds."""
    examples: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.reason is None


def run_check(check: Check, parts: Sequence[PinnedPart], reader: PinnedReader) -> Verdict:
    """Run one check on the parts of a dataset, taken as one relation (from hot to cold)."""
    _check_columns(check, parts)
    with row_sql() as sql:
        stream = reader.relation(parts, columns=list(check.columns))
        sql.give(stream.schema, stream)
        sql.run("take", columns=quoted(*check.columns))
        ((rows,),) = sql.run("count")
        match check.kind:
            case CheckKind.NO_GAPS:
                return _no_gaps(check, sql, rows)
            case CheckKind.UNIQUE:
                return _unique(check, sql, rows)
            case CheckKind.NOT_NULL:
                return _not_null(check, sql, rows)


def _check_columns(check: Check, parts: Sequence[PinnedPart]) -> None:
    types = {column.name: column.type for part in parts for column in part.columns}
    for name in check.columns:
        if name not in types:
            raise Invalid(
                f"The check {check.kind} of {check.dataset} names {name!r}, which is no column.",
                field=name,
            )
    if check.kind is CheckKind.NO_GAPS and not _is_whole(types[check.columns[0]]):
        raise Invalid(
            f"no_gaps needs whole numbers, and {check.columns[0]} is"
            f" {types[check.columns[0]]}; use smallint, integer, bigint or numeric(p) up to 38.",
            field=check.columns[0],
        )


def _is_whole(column_type: str) -> bool:
    size = numeric_size(column_type)
    whole = size is not None and size[1] == 0 and not is_exact_text(column_type)
    return whole or column_type in _WHOLE_TYPES


def _no_gaps(check: Check, sql: RowSql, rows: int) -> Verdict:
    (column,) = check.columns
    found = sql.run("gaps", column=quoted(column), limit=EXAMPLES_MAX)
    if not found:
        return Verdict(check, rows)
    gaps = found[0][2]
    examples = tuple(f"{first}" if first == last else f"{first}-{last}" for first, last, _ in found)
    return Verdict(check, rows, gaps, f"{column} has {_count(gaps, 'gap')}", examples)


def _unique(check: Check, sql: RowSql, rows: int) -> Verdict:
    listed = quoted(*check.columns)
    present = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in check.columns)
    found = sql.run("repeats", columns=listed, present=present, limit=EXAMPLES_MAX)
    if not found:
        return Verdict(check, rows)
    keys = found[0][-1]
    examples = tuple(
        ", ".join(f"{name} = {value!r}" for name, value in zip(check.columns, row, strict=False))
        + f" ({row[-2]} rows)"
        for row in found
    )
    names = ", ".join(check.columns)
    reason = f"{_count(keys, 'value')} of ({names}) stand in more than one row"
    return Verdict(check, rows, keys, reason, examples)


def _not_null(check: Check, sql: RowSql, rows: int) -> Verdict:
    missing = {name: sql.run("nulls", column=quoted(name))[0][0] for name in check.columns}
    found = {name: count for name, count in missing.items() if count}
    if not found:
        return Verdict(check, rows)
    examples = tuple(
        f"{name}: {_count(count, 'row')} without a value" for name, count in found.items()
    )
    reason = f"{', '.join(found)}: values are missing"
    return Verdict(check, rows, sum(found.values()), reason, examples[:EXAMPLES_MAX])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
