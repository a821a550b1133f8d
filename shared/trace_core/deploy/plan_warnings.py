"""What somebody should know before they apply a plan, in whole sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trace_core.dag.catalog import Catalog
from trace_core.dag.fingerprint import job_contents
from trace_core.dag.model import Dag, DatasetName
from trace_core.deploy.plan_model import Action, DatasetAction, DatasetPlan, Plan


def warnings_of(
    plan: Plan, old: Dag | None, new: Dag, catalog: Catalog, begins_empty: Collection[str]
) -> Iterator[str]:
    if old is None and plan.from_version is not None:
        yield (
            f"The file of version {plan.from_version} cannot be read with the operators of this "
            "release, so fields were not compared; fingerprints were."
        )
    for dataset in plan.datasets:
        yield from _dataset(dataset)
    yield from _begin_empty(plan, new, begins_empty)
    for job in plan.jobs if plan.from_version is not None else ():
        if job.buffered:
            past = (
                "rows that are there stay as they are"
                if job.active_fingerprint
                else ("it begins with what comes next")
            )
            yield f"The rebuild does not run {job.name} for {', '.join(job.buffered)}: {past}."
        elif job.rebuilds and not job.runs:
            yield f"{job.name} has no outputs, so nothing is rebuilt: it only works from then on."
    if old is not None:
        yield from _renamed(plan, old, new, catalog)
        yield from _lost_names(old, new)


def _dataset(dataset: DatasetPlan) -> Iterator[str]:
    for change in dataset.schema:
        if change.compatible:
            continue
        verbs = (("breaks", change.breaks), ("may break", change.may_break))
        said = " and ".join(f"{verb} {', '.join(each)}" for verb, each in verbs if each)
        breaks = f" It {said}." if said else ""
        if dataset.action is DatasetAction.HIDDEN:
            yield f"{dataset.name} is no longer published.{breaks}"
        elif change.field == "name":
            yield f"{change.old} gets the name {change.new}.{breaks}"
        else:
            yield f"Incompatible: {dataset.name} {change.field}: {change.why}.{breaks}"
    for edit in dataset.edits:
        gone = [each for each in edit.old or () if each not in (edit.new or ())]
        if edit.field == "pii" and gone:
            yield f"Reads of {dataset.name}.{', '.join(gone)} are no longer logged."


def _begin_empty(plan: Plan, new: Dag, begins_empty: Collection[str]) -> Iterator[str]:
    sources = [name for name in begins_empty if new.job(name).source]
    behind = [job.name for job in plan.jobs if job.name in begins_empty and job.name not in sources]
    for name in sorted(sources):
        fed = f", and so do {', '.join(behind)}" if behind else ""
        yield (
            f"{name} begins empty at its next tick{fed}: rows from before stay in version "
            f"{plan.from_version} only."
        )


def _renamed(plan: Plan, old: Dag, new: Dag, catalog: Catalog) -> Iterator[str]:
    """A new name is a new job; who only renamed one should hear that before it costs a rebuild."""
    before, after = job_contents(old, catalog), job_contents(new, catalog)
    added = [job.name for job in plan.jobs if job.action is Action.ADDED]
    for job in plan.jobs:
        if job.action is not Action.REMOVED or job.name not in before:
            continue
        was = {**before[job.name], "name": None}
        alike = next((name for name in added if {**after[name], "name": None} == was), None)
        if alike:
            yield (
                f"{alike} is {job.name} under another name: to the platform it is a new job, "
                "which is built from nothing."
            )


def _lost_names(old: Dag, new: Dag) -> Iterator[str]:
    for job in new.jobs:
        for each in job.inputs:
            if not isinstance(each.origin, DatasetName):
                continue
            name = each.origin.dataset
            if old.publication(name) and not new.publication(name):
                yield (
                    f"{job.name} reads {name}, which this DAG no longer publishes: another DAG "
                    "must do so before this is applied."
                )
