"""The way in: the text of a DAG file -> a checked DAG, or all its problems at once."""

from __future__ import annotations

from contextlib import suppress

from trace_core.dag.catalog import Catalog
from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.grammar import DAG
from trace_core.dag.model import Dag
from trace_core.dag.positions import decode, parse
from trace_core.dag.problems import DagInvalid, Problems, TooManyProblems
from trace_core.dag.schema import build
from trace_core.dag.validate import validate


def load_dag(text: str | bytes, *, filename: str, catalog: Catalog) -> Dag:
    """Read and check a DAG file; raises DagInvalid with every problem that was found."""
    problems = Problems(filename)
    record: Record | None = None
    with suppress(TooManyProblems):
        record = _read(text, catalog, problems)
    if problems or record is None:
        raise DagInvalid(problems.in_file_order())
    return build(record)


def _read(text: str | bytes, catalog: Catalog, problems: Problems) -> Record | None:
    decoded = decode(text, problems)
    if decoded is None:
        return None
    problems.set_text(decoded)
    root = parse(decoded, problems)
    if root is None:
        return None
    record = DAG.read(root, (), problems)
    if not isinstance(record, Record):
        return None
    validate(record, catalog, Findings(root, problems))
    return record
