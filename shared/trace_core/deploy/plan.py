"""`make_plan`: from two DAGs and the facts of the running state to what an edit means.

Nothing is read or written here, so the same arguments always give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from trace_core.dag.catalog import Catalog
from trace_core.dag.changes import DagChanges, compare_dags
from trace_core.dag.digest import content_digest
from trace_core.dag.graph import order
from trace_core.dag.model import Dag, Job, JobOutput, SourceKind, WriteMode
from trace_core.dag.places import Places
from trace_core.deploy.closure import Closure
from trace_core.deploy.estimate import estimate_rebuild, total
from trace_core.deploy.plan_datasets import DatasetPlans, edit
from trace_core.deploy.plan_facts import PlanFacts, ReaderKind
from trace_core.deploy.plan_model import (
    Action,
    CutOver,
    DatasetAction,
    DatasetPlan,
    Invalidation,
    JobEstimate,
    JobPlan,
    Plan,
    Pointer,
    SourcePlan,
)
from trace_core.deploy.plan_warnings import warnings_of

_PAST = {
    SourceKind.MANUAL: "its requests are replayed, the oldest first",
    SourceKind.WEBHOOK: "its requests are replayed, the oldest first",
    SourceKind.ALWAYS_ON: "the cut over waits until it has covered what the old one covers",
    SourceKind.CRON: "it starts at its next tick; what it announced before is not made again",
}


def make_plan(
    old: Dag | None,
    new: Dag,
    catalog: Catalog,
    facts: PlanFacts,
    *,
    places: Places | None = None,
) -> Plan:
    """What deploying `new` would do.

    `old` is the active definition: nothing before the first deploy, or when its file cannot be
    read any more; then fields are not compared. `places` adds lines of the new file.
    """
    return _Planner(old, new, Closure(old, new, catalog, facts), catalog, facts, places).plan()


@dataclass(frozen=True)
class _Planner:
    old: Dag | None
    new: Dag
    closure: Closure
    catalog: Catalog
    facts: PlanFacts
    places: Places | None

    def plan(self) -> Plan:
        moved, rebuilt = self.closure.moved, self.closure.rebuilt
        datasets = DatasetPlans(
            self.old, self.new, self.changes, moved, rebuilt, self.facts, self.places
        ).all()
        estimates = self._estimates()
        plan = Plan(
            dag=self.new.name,
            from_version=self.facts.version,
            from_digest=self.facts.digest,
            to_digest=content_digest(self.new),
            state_token=self.facts.state_token,
            edits=tuple(edit(each, self.places) for each in self.changes.fields if self.old),
            jobs=(
                *(self._job(job, estimates) for job in self.new.jobs),
                *(self._removed(name) for name in self.closure.removed),
            ),
            sources=tuple(
                SourcePlan(job.name, job.source.kind.value, _PAST[job.source.kind])
                for job in self.new.jobs
                if job.source and self._begins_anew(job.name)
            ),
            datasets=datasets,
            total=total(self.new, estimates),
            cut_over=self._cut_over(datasets),
            warnings=(),
        )
        return replace(
            plan,
            warnings=tuple(warnings_of(plan, self.old, self.new, self.catalog, self.begins_empty)),
        )

    @cached_property
    def changes(self) -> DagChanges:
        if self.old is None and self.facts.version is not None:
            return DagChanges((), (), ())
        return compare_dags(self.old, self.new, self.catalog)

    @cached_property
    def buffered(self) -> Mapping[tuple[str, int], str]:
        """Outputs that the platform writes from a buffer; a rebuild leaves them alone."""
        return {
            (part.job, part.output): publication.name
            for publication in self.new.publications
            if publication.write_mode is WriteMode.BUFFERED
            for part in publication.parts
        }

    @cached_property
    def idle(self) -> dict[str, str]:
        """Jobs of the rebuild that have no work in it -> why."""
        found = {}
        for name in self.closure.rebuilt:
            outputs = range(self.new.job(name).outputs)
            if not outputs:
                found[name] = "not run: it has no outputs"
            elif all((name, output) in self.buffered for output in outputs):
                found[name] = "not run: its outputs are buffered"
        return found

    @cached_property
    def begins_empty(self) -> frozenset[str]:
        """Changed cron sources, and the jobs that only they feed: their past is not made again."""
        triggers: dict[str, set[str]] = {job.name: set() for job in self.new.jobs}
        for edge in self.new.edges():
            if edge.trigger:
                triggers[edge.job].add(edge.origin.job)
        outside = {job for _, job, trigger in self.new.external_datasets() if trigger}
        empty: set[str] = set()
        for job in order(self.new):
            cron = job.source is not None and job.source.kind is SourceKind.CRON
            fed = triggers[job.name]
            if self._begins_anew(job.name) and (
                cron or (fed and fed <= empty and job.name not in outside)
            ):
                empty.add(job.name)
        return frozenset(empty)

    def _begins_anew(self, name: str) -> bool:
        return name in self.closure.rebuilt and name in self.facts.active

    def _estimates(self) -> dict[str, JobEstimate]:
        if self.facts.version is None:
            return {}
        empty = dict.fromkeys(self.begins_empty, "begins empty: its past is not made again")
        idle = {**empty, **self.idle}
        return estimate_rebuild(self.new, self.closure.rebuilt, idle, self.buffered, self.facts)

    def _job(self, job: Job, estimates: Mapping[str, JobEstimate]) -> JobPlan:
        name, fingerprint = job.name, self.closure.fingerprints[job.name]
        active = self.facts.active.get(name)
        moved, rebuilds = name in self.closure.moved, name in self.closure.rebuilt
        edited = name in self.closure.edited
        built = self.facts.built.get((name, fingerprint)) if moved else None
        changes = [
            each for change in self.changes.jobs if change.name == name for each in change.fields
        ]
        if name in self.closure.code_changes:
            changes.append(self.closure.code_changes[name])
        return JobPlan(
            name=name,
            action=self._action(name),
            fingerprint=fingerprint,
            active_fingerprint=active.fingerprint if active else None,
            edited=edited,
            because=self.closure.ways.get(name, ()) if moved and not edited else (),
            edits=tuple(edit(each, self.places) for each in changes),
            rebuilds=rebuilds,
            runs=rebuilds and name not in self.idle,
            buffered=tuple(
                f"{name}.{output} ({self.buffered[name, output]})"
                for output in range(job.outputs)
                if rebuilds and (name, output) in self.buffered
            ),
            reused_version=built.version if built else None,
            missed=built.missed if built else None,
            estimate=estimates.get(name),
        )

    def _action(self, name: str) -> Action:
        if name not in self.closure.moved:
            return Action.KEPT
        if name not in self.closure.rebuilt:
            return Action.REUSED
        return Action.CHANGED if name in self.facts.active else Action.ADDED

    def _removed(self, name: str) -> JobPlan:
        active = self.facts.active[name].fingerprint
        return JobPlan(
            name, Action.REMOVED, None, active, True, (), (), False, False, (), None, None, None
        )

    def _cut_over(self, datasets: tuple[DatasetPlan, ...]) -> CutOver:
        moved = [job for job in self.new.jobs if job.name in self.closure.moved]
        rebuilt = self.closure.rebuilt
        return CutOver(
            pointers=tuple(self._pointers(moved)),
            held=tuple(job.name for job in moved if job.name in self.facts.active),
            waits_for=tuple(
                job.name
                for job in moved
                if self._begins_anew(job.name)
                and job.source
                and job.source.kind is SourceKind.ALWAYS_ON
            ),
            external_inputs=tuple(
                dict.fromkeys(
                    dataset
                    for dataset, reader, _ in self.new.external_datasets()
                    if reader in rebuilt and self.facts.version is not None
                )
            ),
            invalidations=tuple(self._invalidations(datasets)),
            removed=self.closure.removed,
        )

    def _pointers(self, moved: list[Job]) -> Iterator[Pointer]:
        published = {part: each.name for each in self.new.publications for part in each.parts}
        for job in moved:
            built = self.facts.built.get((job.name, self.closure.fingerprints[job.name]))
            for output in range(job.outputs):
                if (job.name, output) in self.buffered:
                    continue
                to = f"what version {built.version} had" if built else "what is built"
                part = JobOutput(job.name, output)
                yield Pointer(str(part), published.get(part), to)

    def _invalidations(self, datasets: tuple[DatasetPlan, ...]) -> Iterator[Invalidation]:
        """Other DAGs' jobs that must read a whole dataset anew."""
        for dataset in datasets:
            parts = any(each.field == "from" for each in dataset.edits)
            names = {dataset.was, dataset.name} - {None}
            gone = dataset.action in (DatasetAction.HIDDEN, DatasetAction.RENAMED)
            if not (dataset.rebuilt_parts or parts) or gone:
                continue
            for name in names:
                for reader in self.facts.readers.get(str(name), ()):
                    if reader.kind is ReaderKind.JOB:
                        yield Invalidation(dataset.name, str(reader))
