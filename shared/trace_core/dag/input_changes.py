"""What differs between the inputs of one job in two DAGs."""

from __future__ import annotations

from trace_core.dag.field_changes import Differ, Effect
from trace_core.dag.filter_meaning import meaning
from trace_core.dag.filters import Predicate, to_text
from trace_core.dag.model import Dag, DatasetName, Job, JobInput
from trace_core.dag.problems import Path


def compare_inputs(old: tuple[Dag, Job], new: tuple[Dag, Job], differ: Differ) -> None:
    """Inputs are told apart by the name they have for the code."""
    before = {each.alias: each for each in old[1].inputs}
    renamed = _renamed(old[1], new[1])
    stayed = []
    for place, each in enumerate(new[1].inputs):
        was = before.get(each.alias) or renamed.get(each.alias)
        if was is None:
            differ.compare(("inputs", place), None, described(each), Effect.DATA)
            continue
        stayed.append(was.alias)
        _compare(old[0], was, new[0], each, ("inputs", place), differ)
    for place, alias in enumerate(before):
        if alias not in stayed:
            at = (*differ.at, "inputs")
            differ.compare(("inputs", place), described(before[alias]), None, Effect.DATA, path=at)
    in_old_order = [alias for alias in before if alias in stayed]
    if in_old_order != stayed:
        differ.compare(("inputs",), in_old_order, stayed, Effect.DATA)


def _compare(
    old_dag: Dag, old: JobInput, new_dag: Dag, new: JobInput, field: Path, differ: Differ
) -> None:
    differ.compare((*field, "as"), old.alias, new.alias, Effect.DATA)
    differ.compare((*field, "trigger"), old.trigger, new.trigger, Effect.DATA)
    if _meaning(old.where) != _meaning(new.where):
        differ.compare((*field, "where"), _text(old.where), _text(new.where), Effect.DATA)
    parts, other_parts = _parts(old_dag, old), _parts(new_dag, new)
    if old.origin != new.origin:
        # A name for the same parts is the same thing to read.
        effect = Effect.NOTHING if parts == other_parts else Effect.DATA
        differ.compare((*field, "from"), str(old.origin), str(new.origin), effect)
    else:
        at = ("publish", str(new.origin), "from")
        differ.compare((*field, "from"), parts, other_parts, Effect.DATA, path=at)


def described(each: JobInput) -> str:
    """A whole input in one line."""
    where = f" where {to_text(each.where)}" if each.where else ""
    trigger = ", triggers" if each.trigger else ""
    return f"{each.origin} as {each.alias}{where}{trigger}"


def _renamed(old: Job, new: Job) -> dict[str, JobInput]:
    """New alias -> the input that had the same place and another alias."""
    old_names, new_names = ({each.alias for each in job.inputs} for job in (old, new))
    return {
        each.alias: was
        for was, each in zip(old.inputs, new.inputs, strict=False)
        if was.alias not in new_names and each.alias not in old_names
    }


def _parts(dag: Dag, each: JobInput) -> list[str]:
    if not isinstance(each.origin, DatasetName):
        return [str(each.origin)]
    publication = dag.publication(each.origin.dataset)
    if publication is None:
        return [f"dataset {each.origin.dataset}"]
    return [str(part) for part in publication.parts]


def _meaning(where: Predicate | None) -> str | None:
    # As text: for Python, the literals 1 and 1.0 and true are the same.
    return to_text(meaning(where)) if where else None


def _text(where: Predicate | None) -> str | None:
    return to_text(where) if where else None
