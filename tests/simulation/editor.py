"""Who edits a deployed DAG: deploys, pauses, gives up, rolls back, and looks after builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.actors import Actor
from tests.simulation.edits import EDITS, Edit
from tests.simulation.faults import Crash
from tests.simulation.runs import Run
from tests.simulation.versions import Deploy
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import DeployUnderWay, Invalid, NotFound, TraceError, Unavailable
from trace_core.kernel.ids import OrgId

if TYPE_CHECKING:
    from tests.simulation.world import World


class Editor(Actor):
    """In about a third of the schedules, for one org: a handful of edits in any order."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "editor")
        self.org: OrgId | None = None
        self._left = self._in_the_end = 0
        self._given_up: Edit | None = None

    def begin(self) -> None:
        rng = self.world.rng
        if rng.random() < 0.4:
            self.org = rng.choice(self.world.orgs)
            self.world.versions.begin()
            self._left, self._in_the_end = rng.randrange(4, 10), rng.randrange(2, 5)
            self._later(rng.uniform(3, 30))

    def _later(self, wait: float) -> None:
        self.world.later(wait, self, "edits", self._act)

    @property
    def _dag(self) -> str:
        assert self.org is not None
        return self.world.org_name(self.org).partition("-")[0]

    def _act(self) -> str | None:
        world, rng = self.world, self.world.rng
        if world.draining or not self._left or self.org is None:
            return None
        self._left -= 1
        deploy = world.versions.under_way(self.org)
        actions: list[tuple[int, Callable[[], str]]]
        if deploy is None:
            back = 12 if self._earlier() else 1
            actions = [(12, self._deploy), (back, self._roll_back)]
        elif deploy.status == "Building":
            actions = [(3, self._pause), (3, self._cancel), (1, self._deploy), (1, self._roll_back),
                       (8, self._wait)]  # fmt: skip
        else:
            actions = [(6, self._resume), (2, self._cancel), (1, self._roll_back)]
        # Some change their mind at once: then what was under way has not stopped yet.
        self._later(rng.uniform(0.5, 6) if rng.random() < 0.3 else rng.expovariate(1 / 20))
        try:
            return rng.choices(actions, [weight for weight, _ in actions])[0][1]()
        except (Crash, Unavailable):
            # Nobody knows whether it was done: they look again soon.
            world.faults.kinds["edit_lost"] += 1
            self._left += 1
            raise

    def _wait(self) -> str:
        return "lets it go on"

    def _refused(self, what: str, error: TraceError, *, expected: bool) -> str:
        if not self.world.interleaved:
            self.world.oracle.must(expected, f"{what}: {error.code}, {error.message}")
        return f"{what}: {error.code}"

    def _deploy(self, edit: Edit | None = None) -> str:
        world, versions = self.world, self.world.versions
        assert self.org is not None
        rng = world.rng
        if self._given_up is not None and rng.random() < 0.7:
            edit, self._given_up = self._given_up, None
        edit = edit or self._another()
        under_way = versions.under_way(self.org)
        built = {versions.edit_of(v).job_key(job.name) for v, job in self._built_jobs()}
        world.interleaved = False
        concurrency = rng.choice((None, None, 1, 2))
        try:
            result = world.any_host().deploys.deploy(
                self.org, edit.text, f"{self._dag}.yaml", SYSTEM, concurrency=concurrency
            )
        except DeployUnderWay as error:
            other = under_way is not None and versions.edit_of(under_way.to_version) is not edit
            return self._refused(f"deploy {edit.name}", error, expected=other)
        world.faults.kinds["edited" if result.created else "edited_again"] += 1
        if not world.interleaved and result.created:
            first = {(job, "first") for job in edit.jobs}
            wanted = {j for j in edit.jobs if edit.job_key(j) not in built | first}
            same = set(result.builds) == wanted
            world.oracle.must(same, f"builds {result.builds}, not {sorted(wanted)}")
        if result.created and result.status == "Building":
            self._old_slices_take_long()
        return f"deploy {edit.name}: version {result.version} is {result.status} {result.builds}"

    def _another(self) -> Edit:
        """Mostly one that is not there already, and that has something to build."""
        dag = self.world.versions.dag_of(self.org) if self.org else None
        active = self.world.versions.edit_of(dag.active).name if dag else "first"
        edits = EDITS[self._dag]
        weights = [1 if e.name == active else 3 if e.name == "settings" else 6 for e in edits]
        return self.world.rng.choices(edits, weights)[0]

    def _earlier(self) -> list[str]:
        """The versions that were active before, the last one first."""
        versions = self.world.versions
        dag = versions.dag_of(self.org) if self.org else None
        if dag is None:
            return []
        return [v for v in reversed(versions.was_active[dag.dag_id]) if v != dag.active]

    def _built_jobs(self) -> list[tuple[str, object]]:
        versions = self.world.versions
        return [
            (version, versions.jobs[job])
            for version in {v for known in versions.was_active.values() for v in known}
            for job in versions.members(version)
        ]

    def _roll_back(self) -> str:
        world, versions = self.world, self.world.versions
        assert self.org is not None
        under_way, earlier = versions.under_way(self.org), self._earlier()
        world.interleaved = False
        try:
            result = world.any_host().deploys.rollback(self.org, self._dag, SYSTEM)
        except DeployUnderWay as error:
            return self._refused("roll back", error, expected=under_way is not None)
        except Invalid as error:
            return self._refused("roll back", error, expected=not earlier)
        world.faults.kinds["rolled_back"] += 1
        world.oracle.observe(again=True)
        dag = versions.dag_of(self.org)
        if not world.interleaved and earlier and dag is not None:
            back = versions.edit_of(earlier[0]).name
            now = versions.edit_of(dag.active).name
            world.oracle.must(now == back, f"rolled back to {now}, not to {back}")
        return f"roll back to version {result.version}, behind {dict(result.behind)}"

    def switched(self) -> None:
        """Another version has become active: some see at once that it is wrong."""
        rng = self.world.rng
        if not self.world.draining and rng.random() < 0.4:
            self.world.later(rng.uniform(0.3, 4), self, "changes its mind", self._regret)

    def _old_slices_take_long(self) -> None:
        """A source that is held in the middle of a slice announces what it has all the same."""
        world = self.world
        for turn in sorted(world.turns):
            run = turn.actor
            if not isinstance(run, Run) or not run.is_source or run.org_id != self.org:
                continue
            if turn.label == "reports" and not turn.taken and world.rng.random() < 0.7:
                turn.taken = True
                world.work -= 1
                world.later(world.rng.uniform(15, 60), turn.actor, turn.label, turn.act)

    def _regret(self) -> str | None:
        return None if self.world.draining else self._roll_back()

    def _pause(self) -> str:
        return self._set_paused(paused=True)

    def _resume(self) -> str:
        return self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> str:
        world, what = self.world, "pause" if paused else "resume"
        assert self.org is not None
        world.interleaved = False
        try:
            world.any_host().deploys.set_deploy_paused(self.org, self._dag, SYSTEM, paused=paused)
        except (NotFound, TraceError) as error:
            if isinstance(error, Unavailable):
                raise
            return self._refused(f"{what} the build", error, expected=False)
        world.faults.kinds["deploy_paused" if paused else "deploy_resumed"] += 1
        return f"{what} the build"

    def _cancel(self) -> str:
        world = self.world
        assert self.org is not None
        world.interleaved = False
        deploy = world.versions.under_way(self.org)
        self._given_up = world.versions.edit_of(deploy.to_version) if deploy else None
        try:
            number = world.any_host().deploys.cancel_deploy(self.org, self._dag, SYSTEM)
        except NotFound as error:
            return self._refused("cancel the build", error, expected=False)
        world.faults.kinds["deploy_canceled"] += 1
        return f"cancel deploy {number}"

    def look_after(self, *, quiet: bool) -> bool:
        """In the end: a build that rests goes on, one that cannot be finished is given up, and when
        all is quiet, or at once, comes another edit or two. Whether anything was done."""
        if self.org is None:
            return False
        deploy = self.world.versions.under_way(self.org)
        if deploy is None:
            if not self._in_the_end or not (quiet or self.world.rng.random() < 0.12):
                return False
            self._in_the_end -= 1
            goes_back = self._earlier() and self.world.rng.random() < 0.6
            self._do("edits", self._roll_back if goes_back else self._deploy)
            return True
        if deploy.status in ("Paused", "ChecksFailed"):
            self._do("resumes", self._resume)
            return True
        if _has_failed(deploy):
            self._do("gives up", self._cancel)
            return True
        return False

    def _do(self, label: str, act: Callable[[], str]) -> None:
        self.world.do(self, label, act)


def _has_failed(deploy: Deploy) -> bool:
    return deploy.status == "Building" and deploy.error is not None
