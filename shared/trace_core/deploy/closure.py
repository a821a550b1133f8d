"""Which jobs an edit reaches: the edited ones, and all that read from them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

from trace_core.dag.catalog import Catalog
from trace_core.dag.field_changes import Effect, FieldChange
from trace_core.dag.fingerprint import job_contents, job_fingerprints
from trace_core.dag.graph import feeds_of
from trace_core.dag.model import Dag
from trace_core.deploy.plan_facts import PlanFacts


@dataclass(frozen=True)
class Closure:
    """Fingerprints decide. What was registered counts, not what the old file would give today."""

    old: Dag | None
    new: Dag
    catalog: Catalog
    facts: PlanFacts

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        return job_fingerprints(self.new, self.catalog)

    @cached_property
    def moved(self) -> frozenset[str]:
        """Jobs whose fingerprint is not the active one: their outputs get another version."""
        active = self.facts.active
        return frozenset(
            name
            for name, fingerprint in self.fingerprints.items()
            if name not in active or active[name].fingerprint != fingerprint
        )

    @cached_property
    def rebuilt(self) -> frozenset[str]:
        """Those of them that were never built like this."""
        return frozenset(
            name for name in self.moved if (name, self.fingerprints[name]) not in self.facts.built
        )

    @cached_property
    def removed(self) -> tuple[str, ...]:
        return tuple(name for name in self.facts.active if name not in self.fingerprints)

    @cached_property
    def edited(self) -> frozenset[str]:
        """Moved jobs that changed themselves, not only in what they read."""
        if self.old is None:
            fed = self._readers_of(self.new, self.moved)
            return frozenset(self.moved - (fed & set(self.facts.active)))
        before = job_contents(self.old, self.catalog)
        after = job_contents(self.new, self.catalog)
        return frozenset(
            name
            for name in self.moved
            if name in self.code_changes or before.get(name) != after[name]
        )

    @cached_property
    def ways(self) -> dict[str, tuple[str, ...]]:
        """Moved job -> the shortest way to it from a job that was edited."""
        feeds = feeds_of(self.new)
        start = [job.name for job in self.new.jobs if job.name in self.edited]
        ways: dict[str, tuple[str, ...]] = {name: (name,) for name in start}
        ahead = deque(start)
        while ahead:
            name = ahead.popleft()
            for reader in feeds[name]:
                if reader in self.moved and reader not in ways:
                    ways[reader] = (*ways[name], reader)
                    ahead.append(reader)
        return ways

    @cached_property
    def code_changes(self) -> dict[str, FieldChange]:
        """Jobs that changed although their definition did not: their code is newer."""
        found = {}
        stale = self._stale_roots()
        for index, job in enumerate(self.new.jobs):
            active = self.facts.active.get(job.name)
            if active is None or job.name not in self.moved:
                continue
            now = self.catalog[job.operator].code_version if job.operator else None
            same = self._old_operator(job.name) in (None, job.operator)
            known = active.code_version is not None and now is not None and same
            if known and active.code_version != now:
                old, new = active.code_version, now
            elif job.name in stale:
                old, new = "as it was registered", "as it is installed"
            else:
                continue
            path = ("jobs", index, "operator" if job.operator else "udf")
            found[job.name] = FieldChange("code version", old, new, Effect.DATA, path)
        return found

    def _old_operator(self, name: str) -> str | None:
        jobs = self.old.jobs if self.old else ()
        return next((job.operator for job in jobs if job.name == name), None)

    def _stale_roots(self) -> frozenset[str]:
        """Active jobs that would be registered otherwise today, without any edit."""
        if self.old is None:
            return frozenset()
        today = job_fingerprints(self.old, self.catalog)
        stale = frozenset(
            name
            for name, active in self.facts.active.items()
            if today.get(name, active.fingerprint) != active.fingerprint
        )
        return stale - self._readers_of(self.old, stale)

    @staticmethod
    def _readers_of(dag: Dag, names: frozenset[str]) -> frozenset[str]:
        feeds = feeds_of(dag)
        return frozenset(reader for name in names for reader in feeds.get(name, ()))
