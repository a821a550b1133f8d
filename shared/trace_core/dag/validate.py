"""Rules that need more than one value of the file: references, cycles, names used twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.graph import cycles
from trace_core.dag.job_rules import check_job
from trace_core.dag.model import Runtime
from trace_core.dag.operator_rules import check_operators
from trace_core.dag.problems import Path, shown
from trace_core.dag.publish_rules import check_checks, check_publications
from trace_core.dag.references import Jobs, check_origin, check_worker_pool

_RESERVED_ENV = ("TRACE_", "AWS_", "LD_", "PYTHON")
_RESERVED_ENV_NAMES = frozenset({"PATH", "HOME", "SHELL", "IFS"})


def validate(dag: Record, catalog: Catalog, found: Findings) -> None:
    """Report every broken rule; wrong values were reported before and are left alone."""
    jobs = _jobs_by_name(dag, found)
    # No pools at all is an empty map; pools that could not be read are unknown.
    pools = dag.get("worker_pools") if dag.has("worker_pools") else {}
    for _, job in dag.records("jobs"):
        check_job(job, catalog, found)
    _inherited_timeout(dag, found)
    for _, job in dag.records("jobs"):
        for _, each in job.records("inputs"):
            origin = each.get("from")
            if isinstance(origin, Record):
                check_origin(origin, jobs, found)
        check_worker_pool(job, pools, found)
    check_operators(dag, jobs, catalog, found)
    _cycles(dag, jobs, found)
    _webhook_paths(dag, found)
    _worker_pools(dag, found)
    check_publications(dag, jobs, found)
    check_checks(dag, found)


def _jobs_by_name(dag: Record, found: Findings) -> Jobs:
    jobs = Jobs()
    listed = dag.get("jobs")
    if not listed or not all(isinstance(job, Record) and job.get("name") for job in listed):
        jobs.complete = False
    for index, job in dag.records("jobs"):
        name = job.get("name")
        if name is None:
            continue
        if name in jobs:
            reason = f"the name {shown(name)} is already used by jobs[{jobs[name].path[-1]}]"
            found.value(("jobs", index, "name"), "duplicate_job", reason, "rename one of the two")
        jobs.setdefault(name, job)
    return jobs


def _inherited_timeout(dag: Record, found: Findings) -> None:
    """One mistake in `defaults` is one problem, however many jobs inherit it."""
    defaults = dag.get("defaults")
    seconds = defaults.get("timeout_seconds") if isinstance(defaults, Record) else None
    if seconds is None:
        return
    heirs = [
        str(job.get("name"))
        for _, job in dag.records("jobs")
        if job.get("runtime")
        and job.get("name")
        and not job.has("timeout_seconds")
        and timedelta(seconds=seconds) > Runtime(job.get("runtime")).max_timeout
    ]
    if heirs:
        most = int(Runtime.LAMBDA.max_timeout.total_seconds())
        named = ", ".join(f"`{name}`" for name in heirs[:3])
        more = f" and {len(heirs) - 3} more" if len(heirs) > 3 else ""
        found.value(
            ("defaults", "timeout_seconds"),
            "timeout_too_long",
            f"{seconds} is too long for jobs outside `emr_serverless`, which have {most} seconds: "
            f"{named}{more}",
            f"write `{most}` or less here, and more in the jobs that need it",
        )


def _cycles(dag: Record, jobs: Mapping[str, Record], found: Findings) -> None:
    """Each cycle once, named in full, at the input that closes it."""
    reads: dict[str, dict[str, Path]] = {name: {} for name in jobs}
    for name, job in jobs.items():
        for _, each in job.records("inputs"):
            origin = each.get("from")
            if isinstance(origin, Record):
                for upstream in _upstream(origin, dag):
                    if upstream in jobs:
                        reads[name].setdefault(upstream, origin.path)
    for name, upstream_paths in reads.items():
        if name in upstream_paths:
            found.value(
                upstream_paths.pop(name),
                "self_edge",
                f"`{name}` reads its own output",
                "read the output of another job",
            )
    feeds: dict[str, list[str]] = {name: [] for name in jobs}
    for name, upstream_paths in reads.items():
        for upstream in upstream_paths:
            feeds[upstream].append(name)
    for cycle in cycles(feeds):
        # cycle is a, b, …: a feeds b, and the last feeds a.
        found.value(
            reads[cycle[0]][cycle[-1]],
            "cycle",
            f"the jobs form a cycle: {' -> '.join([*cycle, cycle[0]])}",
            "remove one of these inputs",
        )


def _upstream(origin: Record, dag: Record) -> list[str]:
    if origin.get("job"):
        return [origin.get("job")]
    publication = (dag.get("publish") or {}).get(origin.get("dataset"))
    if not isinstance(publication, Record):
        return []
    return [part.get("job") for _, part in publication.records("from") if part.get("job")]


def _webhook_paths(dag: Record, found: Findings) -> None:
    seen: dict[str, Any] = {}
    for _, job in dag.records("jobs"):
        source = job.get("source")
        path = source.get("path") if isinstance(source, Record) else None
        if path is None:
            continue
        if path in seen:
            reason = f"the path {shown(path)} is already used by jobs[{seen[path]}]"
            found.value((*job.path, "source", "path"), "duplicate_path", reason, "choose another")
        seen.setdefault(path, job.path[-1])


def _worker_pools(dag: Record, found: Findings) -> None:
    for slots in (dag.get("worker_pools") or {}).values():
        names: dict[str, int] = {}
        for index, slot in enumerate(slots if isinstance(slots, list) else ()):
            if not isinstance(slot, Record):
                continue
            name = slot.get("name")
            if name is not None and name in names:
                reason = f"the name {shown(name)} is already used by slot {names[name]}"
                path = (*slot.path, "name")
                found.value(path, "duplicate_slot", reason, "rename one of the two")
            names.setdefault(name, index)
            _environment(slot, found)


def _environment(slot: Record, found: Findings) -> None:
    env, secrets = slot.get("env") or {}, slot.get("secrets") or {}
    for section, variables in (("env", env), ("secrets", secrets)):
        for name in variables:
            if name in _RESERVED_ENV_NAMES or name.startswith(_RESERVED_ENV):
                found.key(
                    (*slot.path, section, name),
                    "reserved_name",
                    f"the variable {shown(name)} is set by the platform or changes how code runs",
                    "choose another name",
                )
    for name in secrets:
        if name in env:
            found.key(
                (*slot.path, "secrets", name),
                "env_and_secret",
                f"the variable {shown(name)} is also in `env`",
                "keep one of the two",
            )
