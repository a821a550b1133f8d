"""What a job's data depends on, as one hash.

Equal fingerprints mean that existing data is still right: the job keeps its identity and nothing
is rebuilt. Whatever only changes how or when a job runs is left out.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.filters import to_text
from trace_core.dag.graph import order
from trace_core.dag.model import Dag, Job, JobInput, JobOutput

_FORMAT = 1
"""Raised when the content below changes its form; every dataset is then rebuilt."""


def job_fingerprints(dag: Dag, catalog: Catalog) -> dict[str, str]:
    """Job -> fingerprint, in file order. A change reaches the job and all that read from it."""
    published = {publication.name: publication.parts for publication in dag.publications}
    known: dict[str, str] = {}

    def part(origin: JobOutput) -> list[Any]:
        return [known[origin.job], origin.output]

    def read(each: JobInput) -> dict[str, Any]:
        content: dict[str, Any] = {
            "alias": each.alias,
            "trigger": each.trigger,
            "where": to_text(each.where) if each.where else None,
        }
        if isinstance(each.origin, JobOutput):
            return content | {"parts": [part(each.origin)]}
        own = published.get(each.origin.dataset)
        if own is None:
            # Another DAG's dataset: its versions are pinned, so its name is all that counts here.
            return content | {"dataset": each.origin.dataset}
        return content | {"parts": [part(origin) for origin in own]}

    for job in order(dag):
        content = {
            "format": _FORMAT,
            **_code(job, catalog),
            "activation": job.activation,
            "source": job.source.kind if job.source else None,
            "execution_strategy": job.execution_strategy,
            "update_strategy": job.update_strategy,
            "unique_key": list(job.unique_key),
            "outputs": job.outputs,
            "inputs": [read(each) for each in job.inputs],
        }
        known[job.name] = hashlib.sha256(_canonical(content)).hexdigest()
    return {job.name: known[job.name] for job in dag.jobs}


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
