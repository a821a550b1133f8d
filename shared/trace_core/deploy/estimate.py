"""How much a rebuild is: from what the active version holds and how long its tasks took."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import median

from trace_core.dag.graph import order
from trace_core.dag.model import Dag, DatasetName, Job, SourceKind
from trace_core.deploy.plan_facts import OutputFacts, PlanFacts
from trace_core.deploy.plan_model import JobEstimate, Total

_UNKNOWN = OutputFacts()


def estimate_rebuild(
    dag: Dag,
    rebuild: Collection[str],
    idle: Mapping[str, str],
    buffered: Collection[tuple[str, int]],
    facts: PlanFacts,
) -> dict[str, JobEstimate]:
    """Job -> estimate. `idle` names jobs of the rebuild that have no work, and why."""
    found: dict[str, JobEstimate] = {}
    for job in order(dag):
        if job.name not in rebuild:
            continue
        if job.name in idle:
            found[job.name] = JobEstimate(0, 0, 0, 0.0, idle[job.name])
            continue
        partitions, counted = _partitions(dag, job, found, facts)
        held = [
            facts.outputs.get((job.name, output), _UNKNOWN)
            for output in range(job.outputs)
            if (job.name, output) not in buffered
        ]
        seconds, timed = _seconds(dag, job, partitions, facts)
        if seconds is not None and counted == _as_now(facts):
            counted = ""  # said by the time's basis already
        found[job.name] = JobEstimate(
            partitions,
            _sum(each.rows for each in held),
            _sum(each.bytes for each in held),
            seconds,
            "; ".join(filter(None, (counted, timed))),
        )
    return found


def total(dag: Dag, estimates: Mapping[str, JobEstimate]) -> Total | None:
    """Sums, and for the time the longest path: branches are built at the same time."""
    if not estimates:
        return None
    at_least = []
    figures: dict[str, int | None] = {}
    for name in ("partitions", "rows", "bytes"):
        values: list[int | None] = [getattr(each, name) for each in estimates.values()]
        known = [value for value in values if value is not None]
        # Nothing but idle jobs is known: then the sum is not 0 but unknown.
        amount, complete = sum(known), None not in values
        figures[name] = amount if complete or amount else None
        if amount and not complete:
            at_least.append(name)
    times = [each.seconds for each in estimates.values()]
    path, longest = _longest_path(dag, estimates)
    seconds = longest if None not in times or longest else None
    if seconds and None in times:
        at_least.append("seconds")
    way = " → ".join(path)
    if seconds is None:
        basis = "no job of it has been timed"
    elif len(path) == 1:
        basis = f"the time of {way}"
    else:
        basis = f"one after another along the longest path ({way}), branches at the same time"
    return Total(
        figures["partitions"],
        figures["rows"],
        figures["bytes"],
        seconds,
        tuple(at_least),
        path,
        basis,
    )


def _partitions(
    dag: Dag, job: Job, found: Mapping[str, JobEstimate], facts: PlanFacts
) -> tuple[int | None, str]:
    scopes = facts.input_scopes.get(job.name)
    if scopes is not None:
        return scopes, f"one for each of its {scopes:,} input scopes"
    own = [
        held.partitions
        for output in range(job.outputs)
        if (held := facts.outputs.get((job.name, output))) and held.partitions is not None
    ]
    if own:
        return max(own), _as_now(facts)
    upstream = {edge.origin for edge in dag.edges() if edge.job == job.name and edge.trigger}
    outside = [each for each in job.inputs if each.trigger and isinstance(each.origin, DatasetName)]
    if not upstream or any(dag.publication(str(each.origin)) is None for each in outside):
        return None, "how many partitions it will have is not known"
    counts = [
        found[origin.job].partitions
        if origin.job in found
        else facts.outputs.get((origin.job, origin.output), _UNKNOWN).partitions
        for origin in sorted(upstream, key=str)
    ]
    names = " and ".join(str(origin) for origin in sorted(upstream, key=str))
    counted = _sum(counts)
    if counted is None:
        return None, f"as many partitions as {names} has, which is not known"
    return counted, f"one for each partition of {names}"


def _as_now(facts: PlanFacts) -> str:
    return f"as many partitions as version {facts.version} has"


def _seconds(
    dag: Dag, job: Job, partitions: int | None, facts: PlanFacts
) -> tuple[float | None, str]:
    durations = facts.durations.get(job.name, ())
    if not durations:
        return None, "not timed yet"
    each = median(durations)
    at_once, limit = _at_once(dag, job, facts)
    basis = (
        f"last {len(durations)} partitions of version {facts.version}, "
        f"p50 {each:.3g} s each, {limit}"
    )
    if partitions is None:
        return None, basis
    return round(math.ceil(partitions / at_once) * each, 3), basis


def _at_once(dag: Dag, job: Job, facts: PlanFacts) -> tuple[int, str]:
    if job.source and job.source.kind is SourceKind.ALWAYS_ON:
        return 1, "one slice at a time"
    limits = [job.max_concurrency] if job.max_concurrency else []
    limits += [len(pool.slots) for pool in dag.worker_pools if pool.name == job.worker_pool]
    if not limits and facts.at_once is None:
        return 1, "one at a time because no limit is known"
    at_once = min([*limits, *([facts.at_once] if facts.at_once else [])])
    return at_once, f"{at_once} at once"


def _longest_path(dag: Dag, estimates: Mapping[str, JobEstimate]) -> tuple[tuple[str, ...], float]:
    before: dict[str, set[str]] = {name: set() for name in estimates}
    for edge in dag.edges():
        if edge.job in estimates and edge.origin.job in estimates:
            before[edge.job].add(edge.origin.job)
    # Of two ways that take as long, the one with more jobs: an unknown time counts as none.
    ways: dict[str, tuple[float, int, tuple[str, ...]]] = {}
    for job in order(dag):
        if job.name in estimates:
            behind = max((ways[name] for name in before[job.name]), default=(0.0, 0, ()))
            seconds = behind[0] + (estimates[job.name].seconds or 0.0)
            ways[job.name] = (seconds, behind[1] + 1, (*behind[2], job.name))
    seconds, _, path = max(ways.values())
    return path, round(seconds, 3)


def _sum(values: Iterable[int | None]) -> int | None:
    """Unknown as soon as a part of it is."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if listed and len(known) == len(listed) else None
