"""What the operators say about a job when it is deployed, beyond what their settings' types say."""

from __future__ import annotations

from collections.abc import Iterator

from emr_jobs.sql_text import SqlRefused, check_text
from trace_core.dag.catalog import ConfigProblem, JobFacts
from trace_core.dag.column_types import TYPE_PATTERN


def sql_transform(job: JobFacts) -> Iterator[ConfigProblem]:
    try:
        check_text(job.config["sql"], job.inputs)
    except SqlRefused as refused:
        where = f" at line {refused.at[0]}, column {refused.at[1]}" if refused.at else ""
        yield ConfigProblem(("sql",), f"{refused.what}{where}: {refused.reason}", refused.fix)
    yield from _types(job)


def _types(job: JobFacts) -> Iterator[ConfigProblem]:
    for name, told in job.config.get("types", {}).items():
        if not TYPE_PATTERN.fullmatch(told):
            yield ConfigProblem(
                ("types", name), f"`{told}` is no type of a column", "write one such as `bigint`"
            )


def enrich(job: JobFacts) -> Iterator[ConfigProblem]:
    for at, lookup in enumerate(job.config["lookups"]):
        if lookup["input"] not in job.inputs:
            yield ConfigProblem(
                ("lookups", at, "input"),
                f"the job has no input `{lookup['input']}`",
                f"write one of: {', '.join(job.inputs)}",
            )


_RANGES = {"range_aggregator": "range_size", "range_splitter": "chunk_size"}


def rollup(job: JobFacts) -> Iterator[ConfigProblem]:
    """A range that cuts a bucket in two gives two wrong rows: known here where ranges are made."""
    for name, each in job.config["aggregates"].items():
        if each["function"] != "count" and each.get("column") is None:
            yield ConfigProblem(
                ("aggregates", name), f"`{each['function']}` needs a column", "add `column: …`"
            )
    if job.config.get("partial"):
        yield from _partial(job)
        return
    source = job.inputs.get(job.trigger or "")
    named = _RANGES.get(source.operator or "") if source else None
    if source is None or named is None:
        return
    size, bucket = source.config.get(named), job.config.get("bucket")
    if bucket is None or bucket["by"] != "cursor":
        yield ConfigProblem(
            ("bucket",) if bucket else (),
            "each task sees one range, and other ranges may hold rows of the same group",
            "write `partial: true`, or a `bucket` by cursor",
        )
    elif isinstance(size, int) and size % bucket["size"]:
        yield ConfigProblem(
            ("bucket", "size"),
            f"ranges of {size} cut buckets of {bucket['size']} in two",
            f"write a size that divides {size}, or `partial: true`",
        )


def _partial(job: JobFacts) -> Iterator[ConfigProblem]:
    for name, each in job.config["aggregates"].items():
        if each["function"] in ("avg", "count_distinct"):
            yield ConfigProblem(
                ("aggregates", name, "function"),
                f"parts of `{each['function']}` cannot be added up, and `partial` is set",
                "write `sum` and `count` and divide later, or leave `partial` out",
            )
