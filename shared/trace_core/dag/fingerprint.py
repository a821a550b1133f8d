"""What a job's data depends on, as one hash.

Equal fingerprints mean that existing data is still right: the job keeps its identity and nothing
is rebuilt. Whatever only changes how or when a job runs is left out, and so is what `publish`
says: a name starts nothing. Only the parts of a name count, for the jobs that read it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.filter_meaning import meaning
from trace_core.dag.filters import to_text
from trace_core.dag.graph import order
from trace_core.dag.model import Dag, Job, JobInput, JobOutput, Publication

_FORMAT = 2
"""Raised when the content below changes its form; every dataset is then rebuilt."""


def job_fingerprints(dag: Dag, catalog: Catalog) -> dict[str, str]:
    """Job -> fingerprint, in file order. A change reaches the job and all that read from it."""
    contents = job_contents(dag, catalog)
    reads: dict[str, set[str]] = {job.name: set() for job in dag.jobs}
    for edge in dag.edges():
        reads[edge.job].add(edge.origin.job)
    known: dict[str, str] = {}
    for job in order(dag):
        content = {
            "format": _FORMAT,
            "job": contents[job.name],
            "built_on": {name: known[name] for name in reads[job.name]},
        }
        known[job.name] = hashlib.sha256(_canonical(content)).hexdigest()
    return {job.name: known[job.name] for job in dag.jobs}


def job_contents(dag: Dag, catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Job -> all of its own that its data depends on; other jobs are in it by name only."""
    published = {publication.name: publication for publication in dag.publications}
    return {job.name: _content(job, published, catalog) for job in dag.jobs}


def _content(job: Job, published: dict[str, Publication], catalog: Catalog) -> dict[str, Any]:
    return {
        # Two sources may be defined alike and yet announce different things.
        "name": job.name,
        **_code(job, catalog),
        "activation": job.activation,
        "source": job.source.kind if job.source else None,
        "execution_strategy": job.execution_strategy,
        "update_strategy": job.update_strategy,
        "unique_key": sorted(job.unique_key),
        "outputs": job.outputs,
        "inputs": [_input(each, published) for each in job.inputs],
    }


def _input(each: JobInput, published: dict[str, Publication]) -> dict[str, Any]:
    content: dict[str, Any] = {
        "alias": each.alias,
        "trigger": each.trigger,
        "where": to_text(meaning(each.where)) if each.where else None,
    }
    if isinstance(each.origin, JobOutput):
        return content | {"parts": [str(each.origin)]}
    own = published.get(each.origin.dataset)
    if own is None:
        # Another DAG's dataset: its versions are pinned, so its name is all that counts here.
        return content | {"dataset": each.origin.dataset}
    return content | {"parts": [str(part) for part in own.parts]}


def _code(job: Job, catalog: Catalog) -> dict[str, Any]:
    """What runs, and the settings that change what it writes."""
    if job.operator is None:
        udf = job.udf
        # The bundle's id changes with its content; user code declares nothing as execution-only.
        return {
            "udf": [udf.bundle, udf.entrypoint] if udf else None,
            "config": dict(job.config),
        }
    spec = catalog[job.operator]
    return {
        "operator": [spec.name, spec.code_version],
        "config": {name: value for name, value in job.config.items() if name in spec.affects},
    }


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()
