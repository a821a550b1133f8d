"""How long nothing of a DAG is claimed: the transactions of cutover, rollback and roll forward.

Half of a DAG is swapped while tasks wait in the other half. Their number must not matter, since a
switch touches no task; the number of datasets does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from uuid import UUID, uuid4

from bench.world import SilentWaker, new_app
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import OrgId
from trace_core.tasks.api import EventIn, EventsRequest
from trace_core.tasks.model import Fence

_ROOTS = 5
_PER_CALL = 500
_NAMES_MAX = 1000
"""That one DAG may publish."""


@dataclass
class Timed:
    """Milliseconds of each named transaction, from its begin to its commit."""

    took: dict[str, list[float]] = field(default_factory=dict)
    _begun: dict[str, float] = field(default_factory=dict)

    def __call__(self, point: str) -> None:
        name, _, where = point.partition(":")
        if where == "begin":
            self._begun[name] = time.perf_counter()
        elif where == "after_commit" and name in self._begun:
            seconds = time.perf_counter() - self._begun.pop(name)
            self.took.setdefault(name, []).append(seconds * 1000)


@dataclass(frozen=True)
class Switches:
    datasets: int
    waiting: int
    cutover: float
    rollback: float
    forward: float
    worst: float


def wide_dag(name: str, datasets: int, step: str) -> str:
    """`datasets` outputs behind a quiet source, all swapped when `step` changes; five busy jobs."""
    per_job = max(1, -(-datasets // 450))
    jobs = -(-datasets // per_job)
    lines = ["version: 1", f"name: {name}", "jobs:"]
    for source in ("busy", "quiet"):
        lines.append(
            f"  - {{name: {source}, activation: source, runtime: worker, operator: bench_source, "
            "source: {kind: always_on}, outputs: 1}"
        )
    for number in range(_ROOTS):
        lines.append(_job(f"waits{number}", "busy", "bench_step", 1))
    for number in range(jobs):
        root = number < _ROOTS
        before = "quiet" if root else f"job{number % _ROOTS}"
        lines.append(_job(f"job{number}", before, step if root else "bench_wide", per_job))
    outputs = [(number, output) for number in range(jobs) for output in range(per_job)]
    lines.append("publish:")
    for number, output in outputs[:_NAMES_MAX]:
        origin = f"{{job: job{number}, output: {output}}}"
        lines.append(f"  {name}_{number}_{output}: {{from: {origin}}}")
    return "\n".join(lines) + "\n"


def _job(name: str, before: str, operator: str, outputs: int) -> str:
    return (
        f"  - {{name: {name}, activation: reactive, runtime: worker, operator: {operator}, "
        f"execution_strategy: PerUpdate, inputs: [{{from: {{job: {before}, output: 0}}}}], "
        f"outputs: {outputs}}}"
    )


def measure_switches(dsn: str, home: Path, *, datasets: int, waiting: int, rounds: int) -> Switches:
    timed = Timed()
    app = new_app(dsn, home, waker=SilentWaker())
    app.state.crash_points = timed
    try:
        return _measure(app, timed, datasets, waiting, rounds)
    finally:
        app.close()


def _measure(app: App, timed: Timed, datasets: int, waiting: int, rounds: int) -> Switches:
    app.migrate()
    org = app.orgs.ensure_org(f"bench-{uuid4().hex[:12]}")
    name = f"wide{datasets}"
    first, second = (wide_dag(name, datasets, step) for step in ("bench_wide", "bench_wider"))
    app.deploys.deploy(org, first, "bench.yaml", SYSTEM)
    _let_wait(app, org, waiting)
    app.deploys.deploy(org, second, "bench.yaml", SYSTEM)
    while "cutover" not in timed.took:
        app.builds.run_once()
    timed.took.pop("deploy", None)
    for _ in range(rounds):
        app.deploys.rollback(org, name, SYSTEM)
        app.deploys.deploy(org, second, "bench.yaml", SYSTEM)
    taken = timed.took
    return Switches(
        datasets,
        waiting,
        median(taken["cutover"]),
        median(taken["rollback"]),
        median(taken["deploy"]),
        max(taken["cutover"] + taken["rollback"] + taken["deploy"]),
    )


def _let_wait(app: App, org: OrgId, waiting: int) -> None:
    claims = app.claims.claim(org, Runtime.WORKER, 10, "bench")
    busy = next(c for c in claims if app.payloads.job(c.job_id).job["name"] == "busy")
    output = app.payloads.job(busy.job_id).outputs[0]
    for start in range(0, waiting // _ROOTS, _PER_CALL):
        app.events.accept(
            org, _announce(busy.fence, output.dataset_uuid, output.dataset_version, start)
        )


def _announce(fence: Fence, dataset: UUID, version: UUID, start: int) -> EventsRequest:
    return EventsRequest(
        task_id=fence.task_id,
        attempt=fence.attempt,
        lease_token=fence.lease_token,
        events=[
            EventIn(dataset_uuid=dataset, dataset_version=version, cursor=cursor)
            for cursor in range(start, start + _PER_CALL)
        ],
    )
