"""Do the names that one part of the file gives to another exist?"""

from __future__ import annotations

from collections.abc import Mapping

from trace_core.dag.containers import Record
from trace_core.dag.findings import Findings
from trace_core.dag.problems import did_you_mean, nearest, shown


class Jobs(dict[str, Record]):
    """The jobs by name; not complete when a job's name could not be read."""

    complete = True


def check_job_output(origin: Record, jobs: Jobs, found: Findings) -> None:
    """A `{job, output}` pair must name an output that exists."""
    name, output = origin.get("job"), origin.get("output")
    if name is None:
        return
    job = jobs.get(name)
    if job is None:
        near = nearest(name, jobs)
        # A job whose own name could not be read may be the one that is meant here.
        if near or jobs.complete:
            better = f"did you mean `{near}`?" if near else "add the job, or name one that exists"
            reason = f"there is no job {shown(name)}"
            found.value((*origin.path, "job"), "unknown_job", reason, better)
        return
    count = job.get("outputs")
    if output is None or count is None or output < count:
        return
    if count == 0:
        reason, better = f"`{name}` has no outputs", f"give `{name}` outputs, or read another job"
    else:
        reason = f"`{name}` has {count} output{'' if count == 1 else 's'}, numbered from 0"
        better = f"write {'`0`' if count == 1 else f'0 to {count - 1}'}"
    found.value((*origin.path, "output"), "unknown_output", reason, better)


def check_origin(origin: Record, jobs: Jobs, found: Findings) -> None:
    """An input reads `{job, output}` or `{dataset}`."""
    if origin.has("dataset"):
        for key in ("job", "output"):
            if origin.has(key):
                found.key(
                    (*origin.path, key),
                    "job_and_dataset",
                    "an input reads a `job` and its `output`, or a `dataset`, not both",
                    "remove one of the two",
                )
                return
        return
    if not origin.has("job"):
        found.value(
            (*origin.path, "job"),
            "missing",
            "says neither which `job` nor which `dataset` is read",
            "write `{ job: name, output: 0 }` or `{ dataset: name }`",
        )
        return
    if not origin.has("output"):
        reason = "is missing: a job's outputs are numbered from 0"
        found.value((*origin.path, "output"), "missing", reason, "add `output: 0`")
    check_job_output(origin, jobs, found)


def check_worker_pool(job: Record, pools: Mapping[str, object] | None, found: Findings) -> None:
    name = job.get("worker_pool")
    if name is None or pools is None:
        return
    path = (*job.path, "worker_pool")
    if name not in pools:
        better = did_you_mean(name, pools, "add it under `worker_pools`")
        found.value(path, "unknown_pool", f"there is no worker pool {shown(name)}", better)
        return
    if job.get("runtime") == "dispatcher":
        reason = "work inside the Dispatcher holds no slot"
        found.key(path, "pool_not_allowed", reason, "remove it, or use another runtime")
    slots = pools[name]
    if job.has("udf") and any(
        isinstance(slot, Record) and slot.get("secrets")
        for slot in (slots if isinstance(slots, list) else ())
    ):
        found.value(
            path,
            "udf_secrets",
            f"the slots of `{name}` carry secrets, and user code may not get any",
            "use a pool without secrets, or an operator",
        )
