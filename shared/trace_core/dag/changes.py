"""What differs between two checked DAGs, field by field, and why each difference matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_core.dag.catalog import Catalog
from trace_core.dag.dataset_changes import DatasetChange, compare_datasets
from trace_core.dag.field_changes import Differ, Effect, FieldChange, Kind, value_of
from trace_core.dag.input_changes import compare_inputs
from trace_core.dag.model import Dag, Job, Slot
from trace_core.dag.problems import Path

SECRET, OTHER_SECRET = "(a secret)", "(another secret)"
"""Shown instead of the names of secrets: plans are posted where many can read them."""


@dataclass(frozen=True, slots=True)
class JobChange:
    name: str
    kind: Kind
    fields: tuple[FieldChange, ...] = ()

    @property
    def affects_data(self) -> bool:
        return any(each.effect is Effect.DATA for each in self.fields)


@dataclass(frozen=True, slots=True)
class DagChanges:
    fields: tuple[FieldChange, ...]
    """Of the DAG itself: its description and its worker pools."""
    jobs: tuple[JobChange, ...]
    datasets: tuple[DatasetChange, ...]

    def __bool__(self) -> bool:
        return bool(self.fields or self.jobs or self.datasets)


def compare_dags(old: Dag | None, new: Dag, catalog: Catalog) -> DagChanges:
    """Everything that differs. What is only written in another way is no difference."""
    before = old or Dag(new.name, "", (), (), (), ())
    return DagChanges(
        fields=_dag_fields(before, new),
        jobs=tuple(_jobs(before, new, catalog)),
        datasets=compare_datasets(before, new),
    )


def _jobs(old: Dag, new: Dag, catalog: Catalog) -> Iterator[JobChange]:
    before = {job.name: job for job in old.jobs}
    for index, job in enumerate(new.jobs):
        if job.name not in before:
            yield JobChange(job.name, Kind.ADDED)
            continue
        was, differ = before.pop(job.name), Differ(("jobs", index))
        _compare_jobs(was, job, catalog, differ)
        compare_inputs((old, was), (new, job), differ)
        if differ.found:
            yield JobChange(job.name, Kind.CHANGED, tuple(differ.found))
    for name in before:
        yield JobChange(name, Kind.REMOVED)


def _compare_jobs(old: Job, new: Job, catalog: Catalog, differ: Differ) -> None:
    data, run = Effect.DATA, Effect.RUN
    differ.compare(("operator",), old.operator, new.operator, data)
    for part in ("bundle", "entrypoint"):
        differ.compare(
            ("udf", part), getattr(old.udf, part, None), getattr(new.udf, part, None), data
        )
    differ.compare(("activation",), old.activation.value, new.activation.value, data)
    for part, effect in (("kind", data), ("schedule", run), ("path", run)):
        differ.compare(
            ("source", part),
            _text(getattr(old.source, part, None)),
            _text(getattr(new.source, part, None)),
            effect,
        )
    _compare_config(old, new, catalog, differ)
    differ.compare(
        ("execution_strategy",), _text(old.execution_strategy), _text(new.execution_strategy), data
    )
    differ.compare(("outputs",), old.outputs, new.outputs, data)
    differ.compare(
        ("update_strategy",), _text(old.update_strategy), _text(new.update_strategy), data
    )
    if sorted(old.unique_key) != sorted(new.unique_key):
        differ.compare(("unique_key",), list(old.unique_key), list(new.unique_key), data)
    differ.compare(("runtime",), old.runtime.value, new.runtime.value, run)
    differ.compare(("worker_pool",), old.worker_pool, new.worker_pool, run)
    differ.compare(("scaling", "max_concurrency"), old.max_concurrency, new.max_concurrency, run)
    differ.compare(("backpressure", "max_queued"), old.max_queued, new.max_queued, run)
    differ.compare(("priority",), old.priority.value, new.priority.value, run)
    differ.compare(("max_attempts",), old.max_attempts, new.max_attempts, run)
    differ.compare(("timeout_seconds",), _seconds(old.timeout), _seconds(new.timeout), run)
    differ.compare(("heartbeat_seconds",), _seconds(old.heartbeat), _seconds(new.heartbeat), run)
    # It says how a source begins for the first time, and this one has begun.
    differ.compare(
        ("bootstrap", "reset_outputs"), old.reset_outputs, new.reset_outputs, Effect.NOTHING
    )


def _compare_config(old: Job, new: Job, catalog: Catalog, differ: Differ) -> None:
    for name in dict.fromkeys([*old.config, *new.config]):
        affects = any(_affects(job, name, catalog) for job in (old, new))
        effect = Effect.DATA if affects else Effect.RUN
        field = ("config", name)
        if name in old.config and name in new.config:
            differ.compare_maps(field, old.config[name], new.config[name], effect)
        else:
            differ.compare(field, value_of(old.config, name), value_of(new.config, name), effect)


def _affects(job: Job, name: str, catalog: Catalog) -> bool:
    if job.operator is None:
        return name in job.config
    return name in catalog[job.operator].affects


def _dag_fields(old: Dag, new: Dag) -> tuple[FieldChange, ...]:
    differ = Differ(())
    differ.compare(
        ("description",), old.description or None, new.description or None, Effect.NOTHING
    )
    before, after = _slots(old), _slots(new)
    for name in dict.fromkeys([*before, *after]):
        field = ("worker_pools", name)
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            listed = (list(was) if was else None, list(now) if now else None)
            differ.compare(field, listed[0], listed[1], Effect.RUN)
            continue
        stayed = [slot for slot in now if slot in was]
        differ.compare(field, [slot for slot in was if slot in now], stayed, Effect.NOTHING)
        _compare_slots(field, was, now, differ)
    return tuple(differ.found)


def _slots(dag: Dag) -> dict[str, dict[str, Slot]]:
    return {pool.name: {slot.name: slot for slot in pool.slots} for pool in dag.worker_pools}


def _compare_slots(
    field: Path, old: Mapping[str, Slot], new: Mapping[str, Slot], differ: Differ
) -> None:
    for slot in old:
        if slot not in new:
            differ.compare((*field, slot), slot, None, Effect.RUN, path=field)
    for index, slot in enumerate(new):
        if slot not in old:
            differ.compare((*field, slot), None, slot, Effect.RUN, path=(*field, index))
            continue
        for section, old_values, new_values in (
            ("env", old[slot].env, new[slot].env),
            ("secrets", *_hidden(old[slot].secrets, new[slot].secrets)),
        ):
            for name in dict.fromkeys([*old_values, *new_values]):
                differ.compare(
                    (*field, slot, section, name),
                    old_values.get(name),
                    new_values.get(name),
                    Effect.RUN,
                    path=(*field, index, section, name),
                )


def _hidden(
    old: Mapping[str, str], new: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return dict.fromkeys(old, SECRET), {
        name: OTHER_SECRET if name in old and old[name] != value else SECRET
        for name, value in new.items()
    }


def _text(word: Any) -> str | None:
    return None if word is None else str(word)


def _seconds(duration: Any) -> int:
    return int(duration.total_seconds())
