"""Versions of DAGs as the oracle knows them: from files and tables, with rules of its own.

Which jobs may run, where pointers and routes go and which settings hold all follow from the active
version, from the deploy under way and from the text of each version.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.edits import EDITS, Edit
from trace_core.kernel.ids import OrgId

if TYPE_CHECKING:
    from tests.simulation.holders import Lease
    from tests.simulation.world import World

OPEN = ("Building", "Paused", "Checking", "ChecksFailed")


@dataclass(frozen=True)
class Dag:
    dag_id: str
    org_id: str
    name: str
    active: str
    paused: bool


@dataclass(frozen=True)
class Deploy:
    deploy_id: str
    dag_id: str
    number: int
    kind: str
    status: str
    to_version: str
    ended: bool
    error: str | None


@dataclass(frozen=True)
class Job:
    job_id: str
    dag_id: str
    name: str
    standing: str
    claimable: bool
    built: bool
    caught_up: bool
    activation: str
    source_kind: str | None
    max_attempts: int
    timeout_seconds: int
    own_limit: int | None
    open: int
    failed: int
    capacity_ids: list[str]


class Versions:
    def __init__(self, world: World) -> None:
        self._world = world
        self.edited = False
        """Whether there is anything to look at: somebody has edited a DAG."""
        self.dags: dict[str, Dag] = {}
        self.deploys: dict[str, Deploy] = {}
        self.jobs: dict[str, Job] = {}
        self.replaced: set[str] = set()
        """Tasks that have ended because their version was replaced."""
        self.pins: dict[tuple[str, str], int] = {}
        """The highest number of an input at which a job was built: what came before counts by
        scope, from its last event."""
        self.was_active: dict[str, list[str]] = {}
        """The versions of a DAG that were active, each moment at which it changed."""
        self._unclaimable: set[str] = set()
        self.chores = 0
        """Passes over all deploys that came to their end."""
        self._stale: dict[str, int] = {}
        """Leases of replaced jobs that nobody has canceled, and at which pass they were seen."""
        self._members: dict[str, set[str]] = {}
        self._texts: dict[str, Edit] = {}
        self._signature: object = None
        self._defaults = self._read_defaults()

    def _read_defaults(self) -> dict[str, int]:
        """What a job has that says nothing: taken from one that the schedule begins with."""
        free = next(
            job for job in self._world.definitions.jobs.values()
            if (job.dag, job.name) == ("mixed", "free")
        )  # fmt: skip
        return {"max_attempts": free.max_attempts, "timeout_seconds": free.timeout_seconds}

    # What others ask -----------------------------------------------------------------------------

    def dag_of(self, org: OrgId) -> Dag | None:
        return next((dag for dag in self.dags.values() if dag.org_id == str(org)), None)

    def under_way(self, org: OrgId) -> Deploy | None:
        dag = self.dag_of(org)
        found = [d for d in self.deploys.values() if dag and d.dag_id == dag.dag_id]
        return next((d for d in found if d.status in OPEN), None)

    def edit_of(self, version: str) -> Edit:
        if version not in self._texts:
            by_text = {edit.text: edit for edits in EDITS.values() for edit in edits}
            for row in self._world.state.look("version_texts"):
                if row.source in by_text:
                    self._texts[str(row.dag_version_id)] = by_text[row.source]
        return self._texts[version]

    def members(self, version: str) -> set[str]:
        return self._members.get(version, set())

    # After every step ----------------------------------------------------------------------------

    def observe(self) -> None:
        if not self.edited:
            return
        seen = self._world.state.glance("versions")
        before = self.deploys
        self._unclaimable = {job.job_id for job in self.jobs.values() if not job.claimable}
        self.dags = {row[0]: Dag(*row) for row in seen[0] or ()}
        self.deploys = {row[0]: Deploy(*row) for row in seen[1] or ()}
        self._members = defaultdict(set)
        for version, job in seen[2] or ():
            self._members[version].add(job)
        self.jobs = {row[0]: Job(*row) for row in seen[3] or ()}
        for job, version, pin in seen[7] or ():
            self.pins[job, version] = max(pin, self.pins.get((job, version), 0))
        self.replaced = set(seen[8] or ())
        self._misread = set(seen[9] or ())
        self._learn()
        for dag in self.dags.values():
            self._standings(dag)
            self._pointers(dag, seen[4] or [])
            self._settings(dag, seen[10] or [])
        self._world.oracle.must(not seen[5], f"{seen[5]} routes are not what they must be")
        self._routes(seen[6] or [])
        for deploy in self.deploys.values():
            self._progress(before.get(deploy.deploy_id), deploy)

    def _learn(self) -> None:
        """Jobs, limits and texts that are new, and the version that is active now."""
        for dag in self.dags.values():
            known = self.was_active.setdefault(dag.dag_id, [])
            if not known or known[-1] != dag.active:
                known.append(dag.active)
                self._world.editor.switched()
        signature = {
            job.job_id: (job.max_attempts, job.timeout_seconds, job.own_limit, *job.capacity_ids)
            for job in self.jobs.values()
        }
        if signature != self._signature:
            self._signature = signature
            self._world.learn_jobs()

    def _must(self, holds: bool, message: str) -> None:
        self._world.oracle.must(holds, message)

    def _open_of(self, dag: Dag) -> Deploy | None:
        found = [d for d in self.deploys.values() if d.dag_id == dag.dag_id and d.status in OPEN]
        self._must(len(found) <= 1, f"{len(found)} deploys of {dag.name} are under way")
        return found[0] if found else None

    def _standings(self, dag: Dag) -> None:
        """What each job is, worked out again from the active version and the deploy."""
        deploy = self._open_of(dag)
        active = self.members(dag.active)
        coming = self.members(deploy.to_version) if deploy else set()
        coming_names = {self.jobs[job].name for job in coming}
        names = [self.jobs[job].name for job in active]
        self._must(len(names) == len(set(names)), f"two current jobs of one name: {sorted(names)}")
        self._must(
            set(names) == set(self.edit_of(dag.active).jobs), f"the active version has {names}"
        )
        for job in self.jobs.values():
            if job.dag_id != dag.dag_id:
                continue
            if job.job_id in active:
                gives_way = job.job_id not in coming and job.name in coming_names
                standing = "held" if gives_way else "active"
            else:
                standing = "candidate" if job.job_id in coming and not job.built else "retired"
            self._must(job.standing == standing, f"{job.name} is {job.standing}, not {standing}")
            builds = standing == "candidate" and deploy is not None
            may_run = standing == "active" or (builds and deploy.status == "Building")  # type: ignore[union-attr]
            if builds and deploy is not None and deploy.status in ("Checking", "ChecksFailed"):
                continue
            may_run = may_run and not dag.paused and not (builds and job.caught_up)
            what = f"{standing} {job.name} may{'' if job.claimable else ' not'} be claimed"
            self._must(job.claimable == may_run, what)

    def _pointers(self, dag: Dag, pointers: list[Any]) -> None:
        """They name what the active version makes, all of them, at every moment."""
        makers = {self.jobs[job].name: job for job in self.members(dag.active)}
        for dag_id, name, maker in pointers:
            if dag_id == dag.dag_id and name in makers:
                right = maker == makers[name]
                self._must(right, f"pointers and active version are apart: {name} of {dag.name}")

    def _settings(self, dag: Dag, slots: list[Any]) -> None:
        edit = self.edit_of(dag.active)
        for job_id in self.members(dag.active):
            job = self.jobs[job_id]
            written = edit.jobs[job.name]
            for key, default in self._defaults.items():
                wanted, found = written.get(key, default), getattr(job, key)
                self._must(found == wanted, f"{job.name} has {key} {found}, not {wanted}")
            limit = written.get("scaling", {}).get("max_concurrency")
            self._must(job.own_limit == limit, f"{job.name}: {job.own_limit} at once, not {limit}")
        for pool, wanted_slots in edit.slots.items():
            found_slots = {
                slot for dag_id, name, slot in slots if (dag_id, name) == (dag.dag_id, pool)
            }
            self._must(found_slots == wanted_slots, f"{pool} has slots {sorted(found_slots)}")

    def _routes(self, routes: list[Any]) -> None:
        """Events go to jobs that are in one version with their producer, and nowhere else."""
        for reader, maker in routes:
            together = any(reader in jobs and maker in jobs for jobs in self._members.values())
            if maker in self.jobs:
                names = f"{self.jobs[maker].name} to {self.jobs[reader].name}"
                self._must(together, f"events of one version go to another: {names}")
                same = (self.jobs[reader].standing == "candidate") == (
                    self.jobs[maker].standing == "candidate"
                )
                self._must(same, f"events of a candidate are mixed up: {names}")

    def _progress(self, before: Deploy | None, now: Deploy) -> None:
        kinds = self._world.faults.kinds
        if before is None or before.status == now.status:
            return
        if now.status == "Checking":
            self._built(now)
        if now.status == "Draining":
            kinds["cut_over"] += 1
            self._must(before.status == "Checking", f"{before.status} was cut over")
        if now.status == "ChecksFailed":
            kinds["checks_failed"] += 1

    def _built(self, deploy: Deploy) -> None:
        candidates = [
            self.jobs[job] for job in self.members(deploy.to_version)
            if self.jobs[job].standing == "candidate"
        ]  # fmt: skip
        if any(job.source_kind in ("manual", "cron") for job in candidates):
            # Those go on announcing what is asked for, and what the time says.
            return
        for job in candidates:
            if job.activation != "source":
                self._must(not job.open, f"built with {job.open} open tasks of {job.name}")
                self._must(not job.failed, f"built with {job.failed} failed tasks of {job.name}")

    def look_at(self, leases: dict[str, Lease]) -> None:
        """What runs for a replaced version is canceled by the next pass that begins after it."""
        stale = {}
        for task, lease in leases.items():
            job = self.jobs.get(lease.job_id)
            if job is None or job.standing != "retired" or job.activation == "source":
                continue
            if not lease.canceled:
                stale[task] = self._stale.get(task, self.chores)
                overdue = self.chores - stale[task] > 2
                name = self._world.name(UUID(task))
                self._must(not overdue, f"{name} of retired {job.name} is not canceled")
        self._stale = stale

    def begin(self) -> None:
        """What there is before anybody edits it."""
        self.edited = True
        for row in self._world.state.look("active_versions"):
            self.was_active[str(row.dag_id)] = [str(row.active_dag_version_id)]

    def claimed(self, lease: Lease, *, is_new: bool) -> None:
        """A lease that was not there a step ago, or that has begun since."""
        job = self.jobs.get(lease.job_id)
        if job is None:
            return
        name, world = self._world.name(UUID(lease.task_id)), self._world
        building = any(
            d.status == "Building" and d.dag_id == job.dag_id for d in self.deploys.values()
        )
        if job.standing == "active" and building:
            world.faults.kinds["live_during_build"] += 1
        if world.crossing.crossed:
            return
        idle = is_new and job.job_id in self._unclaimable and not job.claimable
        self._must(not idle, f"{name} of {job.standing} {job.name} was claimed")
        # Of a reservation nothing is pinned before its exchange.
        read = lease.task_id in self._misread
        self._must(not read, f"{name} of candidate {job.name} reads what its deploy did not fix")
