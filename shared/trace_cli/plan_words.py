"""What a plan does, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_cli.plan_values import amount
from trace_core.deploy.plan_model import Action, DatasetAction, DatasetPlan, JobPlan, Plan


def reason(job: JobPlan) -> str:
    match job.action:
        case Action.ADDED:
            return "new"
        case Action.REMOVED:
            return "gone from the file; its data stays until it is purged"
        case Action.KEPT:
            return "keeps its data"
        case Action.REUSED:
            return f"takes up what version {job.reused_version} built; {_missed(job.missed)}"
        case Action.CHANGED:
            pass
    rebuilds = "rebuilds" if job.runs else "changes without a rebuild"
    if job.edited:
        return f"{rebuilds}: edited"
    way = " → ".join(job.because)
    through = f"  ({way})" if len(job.because) > 2 else ""
    return f"{rebuilds} because it reads {job.because[-2]}{through}"


def _missed(count: int | None) -> str:
    if count is None:
        return "how much it missed is not known"
    return f"{amount(count)} missed events to catch up with" if count else "nothing was missed"


def happens(dataset: DatasetPlan, plan: Plan) -> str:
    rows = "; ".join(_rows(dataset, plan))
    match dataset.action:
        case DatasetAction.PUBLISHED:
            return f"published from {_list(dataset.parts)}"
        case DatasetAction.HIDDEN:
            return f"no longer published; {_list(dataset.parts)} can be read in this DAG only"
        case DatasetAction.RENAMED:
            return f"was published as {dataset.was}" + (f"; {rows}" if rows else "")
        case DatasetAction.CHANGED:
            return rows or "the rows stay"
        case DatasetAction.REBUILT:
            return rows


def _rows(dataset: DatasetPlan, plan: Plan) -> Iterator[str]:
    """Which of its parts get other rows."""
    actions = {job.name: job.action for job in plan.jobs}
    for word, again in (("rebuilt", False), ("taken up again", True)):
        parts = [
            part
            for part in dataset.rebuilt_parts
            if (actions[part.rpartition(".")[0]] is Action.REUSED) is again
        ]
        if parts:
            yield f"{word}: {_list(parts)}"


def readers(dataset: DatasetPlan) -> Iterator[str]:
    for words, names in (
        ("read in this DAG by", dataset.jobs),
        ("read by other DAGs:", dataset.dags),
        ("alert rules:", dataset.alert_rules),
    ):
        if names:
            yield f"{words} {_list(names)}"


def cut_over_lines(plan: Plan) -> Iterator[str]:
    cut = plan.cut_over
    first = plan.from_version is None
    if not cut.pointers and not first:
        yield "Takes effect at once: nothing is built and no pointer moves."
    elif not plan.rebuild_set and not first:
        yield "Takes effect at once: the versions that it needs are there."
    if cut.held and plan.rebuild_set:
        yield (
            f"Until then version {plan.from_version} answers, and live work waits: "
            f"{_list(cut.held)}."
        )
    for name in cut.waits_for:
        yield f"Waits until {name} has covered what the old one covers."
    if cut.external_inputs:
        yield f"Refused if another DAG cuts over meanwhile: {_list(cut.external_inputs)}."
    if cut.pointers and not first:
        named = [
            f"{each.output} ({each.dataset})" if each.dataset else each.output
            for each in cut.pointers
        ]
        count = "1 pointer" if len(named) == 1 else f"{len(named)} pointers"
        yield f"Moves {count} in one transaction: {_list(named)}."
    for each in cut.invalidations:
        yield f"Tells {each.reader} to read all of {each.dataset} again."
    for name in cut.removed:
        yield f"Ends {name}; its data stays until it is purged."
    if first:
        yield "All jobs begin to work; there is nothing to rebuild."


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
