"""Inputs whose rewrites a job hears of by its trigger, so that it need not be told of each."""

from __future__ import annotations

from trace_core.dag.catalog import Catalog
from trace_core.dag.model import Dag, Job, JobOutput


def announced_by_trigger(dag: Dag, job: Job, catalog: Catalog) -> frozenset[JobOutput]:
    """Outputs from which the triggers of a job follow by nothing but announcements.

    A range_aggregator over blocks announces a range again when it was rewritten. A job that it
    triggers, and that reads those blocks as well, would otherwise get a second task, about the
    part of the range that was rewritten, which need not be a partition of anything.
    """
    jobs = {each.name: each for each in dag.jobs}
    triggers = _triggers(dag)
    found: set[JobOutput] = set()
    ahead = list(triggers.get(job.name, ()))
    while ahead:
        origin = ahead.pop()
        if origin in found:
            continue
        producer = jobs[origin.job]
        spec = catalog.get(producer.operator or "")
        found.add(origin)
        if spec is not None and spec.outputs_together:
            found.update(JobOutput(producer.name, at) for at in range(producer.outputs))
        if spec is not None and spec.announces_rewrites:
            ahead.extend(triggers.get(producer.name, ()))
    return frozenset(found)


def _triggers(dag: Dag) -> dict[str, list[JobOutput]]:
    found: dict[str, list[JobOutput]] = {}
    for edge in dag.edges():
        if edge.trigger:
            found.setdefault(edge.job, []).append(edge.origin)
    return found
