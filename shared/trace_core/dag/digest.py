"""A DAG's whole meaning as one hash: equal digests are the same definition."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from trace_core.dag.column_types import canonical_type
from trace_core.dag.filter_meaning import meaning
from trace_core.dag.filters import to_text
from trace_core.dag.model import Check, Dag, JobInput, Publication, TableSchema


def content_digest(dag: Dag) -> str:
    """Of what the file means: comments, spaces, the order of keys and of jobs do not count."""
    content = {
        "name": dag.name,
        "description": dag.description,
        "jobs": _by_name(dag.jobs),
        "worker_pools": _by_name(dag.worker_pools),
        "publications": _by_name(dag.publications),
        "checks": _grouped(dag.checks),
    }
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _by_name(each: tuple[Any, ...]) -> dict[str, Any]:
    return {one.name: one for one in each}


def _grouped(checks: tuple[Check, ...]) -> dict[str, list[str]]:
    """All checks of a dataset must hold, in whatever order they stand."""
    grouped: dict[str, list[str]] = {}
    for check in checks:
        grouped.setdefault(check.dataset, []).append(f"{check.kind} {','.join(check.columns)}")
    return {dataset: sorted(listed) for dataset, listed in grouped.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        match value:
            case JobInput(where=where) if where is not None:
                fields["where"] = to_text(meaning(where))
            case Publication(pii=pii):
                fields["pii"] = sorted(pii)
            case TableSchema(columns, unique, indexes):
                fields["columns"] = {each.name: canonical_type(each.type) for each in columns}
                fields |= {"unique": sorted(unique), "indexes": sorted(indexes)}
        if "unique_key" in fields:
            fields["unique_key"] = sorted(fields["unique_key"])
        return {"": type(value).__name__, **fields}
    return dict(value) if isinstance(value, Mapping) else str(value)
