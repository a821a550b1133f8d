"""Rules for publications, their schemas and their checks."""

from __future__ import annotations

from collections.abc import Mapping

from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.model import CheckKind
from trace_core.dag.problems import Path, did_you_mean, shown
from trace_core.dag.references import Jobs, check_job_output

PLATFORM_DATASETS = frozenset({"alert_events", "alert_deliveries"})
RESERVED_PREFIXES = ("trace_", "pg_")
# Columns that Postgres has in every table, and the one that the platform fills in itself.
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_NO_COLUMNS = frozenset[str]()


def check_publications(dag: Record, jobs: Jobs, found: Findings) -> None:
    taken: dict[tuple[str, int], str] = {}
    for name, publication in (dag.get("publish") or {}).items():
        _name(name, found)
        if not isinstance(publication, Record):
            continue
        _parts(name, publication, jobs, taken, found)
        _moved(publication, jobs, found)
        _storage(publication, jobs, found)
        _columns(publication, found)


def _name(name: str, found: Findings) -> None:
    path: Path = ("publish", name)
    if name in PLATFORM_DATASETS:
        found.key(
            path,
            "reserved_name",
            f"`{name}` belongs to the platform and cannot be published by a DAG",
            f"choose another name; to read it, write `from: {{ dataset: {name} }}` in an input",
        )
    for prefix in RESERVED_PREFIXES:
        if name.startswith(prefix):
            better = f"write `{name.removeprefix(prefix)}`" if name != prefix else "choose another"
            found.key(
                path, "reserved_name", f"names that start with `{prefix}` are reserved", better
            )


def _parts(
    name: str,
    publication: Record,
    jobs: Jobs,
    taken: dict[tuple[str, int], str],
    found: Findings,
) -> None:
    for _, part in publication.records("from"):
        check_job_output(part, jobs, found)
        job, output = part.get("job"), part.get("output")
        if job is None or output is None:
            continue
        holder = taken.setdefault((job, output), name)
        if holder != name or part is not _first(publication, job, output):
            again = "twice" if holder == name else f"already as `{holder}`"
            found.value(
                part.path,
                "published_twice",
                f"output {output} of `{job}` is published {again}",
                "publish each output once; several readers can share one name",
            )


def _moved(publication: Record, jobs: Jobs, found: Findings) -> None:
    """A colder part made from a hotter one hides all that it has of a range there."""
    if publication.get("storage") == "postgres":
        return
    hotter: list[tuple[str, int]] = []
    for _, part in publication.records("from"):
        job = jobs.get(part.get("job") or "")
        if job is not None and job.get("update_strategy") == "replace":
            for _, given in job.records("inputs"):
                origin = given.get("from")
                if not isinstance(origin, Record) or not given.has("where"):
                    continue
                if (origin.get("job"), origin.get("output")) in hotter:
                    found.value(
                        (*given.path, "where"),
                        "moved_and_filtered",
                        f"`{job.get('name')}` moves rows of `{origin.get('job')}` under one name, "
                        "and those that the filter leaves out would be gone",
                        "remove `where`, or publish this output under a name of its own",
                    )
        if part.get("job") is not None and part.get("output") is not None:
            hotter.append((part.get("job"), part.get("output")))


def _first(publication: Record, job: str, output: int) -> Record | None:
    for _, part in publication.records("from"):
        if part.get("job") == job and part.get("output") == output:
            return part
    return None


def _storage(publication: Record, jobs: Jobs, found: Findings) -> None:
    if publication.get("write_mode") != "buffered":
        return
    if publication.get("storage") == "s3":
        found.value(
            (*publication.path, "storage"),
            "buffered_storage",
            "a buffered dataset is a Postgres table",
            "write `storage: postgres`, or `write_mode: direct`",
        )
    if not publication.has("schema"):
        found.value(
            (*publication.path, "schema"),
            "missing",
            "is missing: the platform makes the table of a buffered dataset",
            "add `schema:` with `columns` and `unique`",
        )
    schema = publication.get("schema")
    if isinstance(schema, Record) and not schema.has("unique"):
        found.value(
            (*schema.path, "unique"),
            "missing",
            "is missing: a buffered dataset drops repeated rows by it",
            "add `unique: [column]`",
        )
    for _, part in publication.records("from"):
        job = jobs.get(part.get("job") or "")
        if job and job.get("update_strategy") == "replace":
            found.value(
                part.path,
                "buffered_replace",
                f"`{job.get('name')}` replaces its output, but a buffered dataset only grows",
                "write `update_strategy: append` with a `unique_key` in that job",
            )


def _columns(publication: Record, found: Findings) -> None:
    schema = publication.get("schema")
    if not isinstance(schema, Record):
        return
    columns = schema.get("columns")
    if not isinstance(columns, dict):
        return
    for column in columns:
        if column in _SYSTEM_COLUMNS or column == "org_id" or column.startswith("trace_"):
            owner = "Postgres" if column in _SYSTEM_COLUMNS else "the platform"
            found.key(
                (*schema.path, "columns", column),
                "reserved_name",
                f"the column `{column}` is kept by {owner}",
                "choose another name",
            )
    for index, column in schema.texts("unique"):
        _known(column, columns, (*schema.path, "unique", index), found)
    for index, each in enumerate(schema.get("indexes") or ()):
        for place, column in enumerate(each if isinstance(each, list) else ()):
            if isinstance(column, str):
                _known(column, columns, (*schema.path, "indexes", index, place), found)
    for index, column in publication.texts("pii"):
        _known(column, columns, (*publication.path, "pii", index), found)


def _known(column: str, columns: Mapping[str, object], path: Path, found: Findings) -> None:
    if column not in columns:
        reason = f"the schema has no column {shown(column)}"
        better = did_you_mean(column, columns, "add it to `schema.columns`")
        found.value(path, "unknown_column", reason, better)


def check_checks(dag: Record, found: Findings) -> None:
    published = dag.get("publish") or {}
    for name, checks in (dag.get("checks") or {}).items():
        if dag.has("publish") and dag.get("publish") is None:
            continue
        if name not in published:
            reason = f"{shown(name)} is not published by this DAG"
            better = did_you_mean(name, published, "add it under `publish`, or remove the check")
            found.key(("checks", name), "unknown_publication", reason, better)
        columns = _columns_of(published.get(name))
        for check in checks if isinstance(checks, list) else ():
            if isinstance(check, Record):
                _check(check, columns, found)


def _columns_of(publication: object) -> Mapping[str, object] | None:
    schema = publication.get("schema") if isinstance(publication, Record) else None
    columns = schema.get("columns") if isinstance(schema, Record) else None
    return columns if isinstance(columns, dict) else None


def _check(check: Record, columns: Mapping[str, object] | None, found: Findings) -> None:
    kind = check.get("kind")
    if kind is None:
        return
    wanted, other = ("column", "columns") if kind == CheckKind.NO_GAPS else ("columns", "column")
    if not check.has(wanted) and not check.has(other):
        example = "number" if wanted == "column" else "[hash]"
        found.value(
            (*check.path, wanted),
            "missing",
            f"is missing for `kind: {kind}`",
            f"add `{wanted}: {example}`",
        )
    if check.has(other):
        found.key(
            (*check.path, other),
            "not_for_kind",
            f"`kind: {kind}` has no `{other}`",
            "remove it" if check.has(wanted) else f"write `{wanted}`",
        )
    if columns is not None:
        if kind == CheckKind.NO_GAPS and check.get("column"):
            _known(check.get("column"), columns, (*check.path, "column"), found)
        for index, column in check.texts("columns"):
            _known(column, columns, (*check.path, "columns", index), found)
