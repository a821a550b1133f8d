"""Random DAGs and random edits: the rebuild set is what a walk of the graph says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.deploy.market import CATALOG, DAG, TEXT, active_facts, plan_of, read
from trace_core.dag.changes import compare_dags
from trace_core.dag.digest import content_digest
from trace_core.dag.fingerprint import job_contents, job_fingerprints
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.deploy.plan import make_plan
from trace_core.deploy.plan_facts import BuiltJob

quick = settings(max_examples=50, deadline=None, database=None)
Reads = dict[str, list[tuple[str, bool]]]
"""Job -> the jobs it reads, each straight or by a published name."""


@st.composite
def graphs(draw: Callable[..., Any], most: int = 9) -> Reads:
    reads: Reads = {}
    for index in range(draw(st.integers(1, most))):
        chosen = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        reads[f"job_{index}"] = [(f"job_{each}", draw(st.booleans())) for each in sorted(chosen)]
    names = draw(st.permutations(list(reads)))
    return {name: reads[name] for name in names}


def file_of(reads: Reads, sizes: dict[str, int]) -> dict[str, Any]:
    """The content of a DAG file; `sizes` is the one setting of each job that affects data."""
    jobs = []
    for name, upstream in reads.items():
        job: dict[str, Any] = {"name": name, "runtime": "dispatcher", "outputs": 1}
        if upstream:
            job |= {
                "activation": "reactive",
                "operator": "range_splitter",
                "config": {"chunk_size": sizes[name]},
                "execution_strategy": "PerUpdate",
                "inputs": [
                    {"from": {"dataset": f"d_{each}"} if by_name else {"job": each, "output": 0}}
                    for each, by_name in upstream
                ],
            }
        else:
            source = (
                {"kind": "manual"} if sizes[name] == 1 else {"kind": "webhook", "path": f"/{name}"}
            )
            job |= {"activation": "source", "operator": "range_request", "source": source}
        jobs.append(job)
    publish = {f"d_{name}": {"from": {"job": name, "output": 0}} for name in reads}
    return {"version": 1, "name": "made", "jobs": jobs, "publish": publish}


def dag_of(content: dict[str, Any]) -> Dag:
    return load_dag(yaml.safe_dump(content, sort_keys=False), filename="made", catalog=CATALOG)


def before_and_after(reads: Reads, edited: set[str]) -> tuple[Dag, Dag]:
    sizes = dict.fromkeys(reads, 1)
    later = sizes | dict.fromkeys(edited, 2)
    return dag_of(file_of(reads, sizes)), dag_of(file_of(reads, later))


def reachable(reads: Reads, names: set[str]) -> set[str]:
    """By a walk of its own: who reads any of these, until nobody is left."""
    found = set(names)
    while True:
        more = {n for n, up in reads.items() if any(each in found for each, _ in up)} - found
        if not more:
            return found
        found |= more


@quick
@given(graphs(), st.data())
def test_the_rebuild_set_is_what_was_edited_and_all_that_can_be_reached_from_it(
    reads: Reads, data: st.DataObject
) -> None:
    edited = data.draw(st.sets(st.sampled_from(sorted(reads)), min_size=1, max_size=3))
    before = dict.fromkeys(reads, 1)
    old, new = (
        dag_of(file_of(reads, before)),
        dag_of(file_of(reads, before | dict.fromkeys(edited, 2))),
    )
    plan = make_plan(old, new, CATALOG, active_facts(old))
    assert plan.rebuild_set == reachable(reads, edited)
    assert {job.name for job in plan.jobs if job.edited} == edited
    for job in plan.jobs:
        steps = list(zip(job.because, job.because[1:], strict=False))
        assert all(step[0] in [each for each, _ in reads[step[1]]] for step in steps)
        assert bool(steps) == (job.rebuilds and not job.edited)


@quick
@given(graphs(), st.data())
def test_going_back_to_what_was_built_before_rebuilds_nothing(
    reads: Reads, data: st.DataObject
) -> None:
    edited = data.draw(st.sets(st.sampled_from(sorted(reads)), min_size=1))
    before = dict.fromkeys(reads, 1)
    first, second = (
        dag_of(file_of(reads, before)),
        dag_of(file_of(reads, before | dict.fromkeys(edited, 2))),
    )
    facts = active_facts(second)
    built = {item: BuiltJob(1, 0) for item in job_fingerprints(first, CATALOG).items()}
    known = {item: job for item, job in built.items() if item[0] in reachable(reads, edited)}
    plan = make_plan(second, first, CATALOG, replace(facts, built=known))
    assert plan.rebuild_set == frozenset()
    reused = {job.name for job in plan.jobs if job.action == "reused"}
    assert reused == reachable(reads, edited)


def shuffled(content: Any, order: random.Random) -> Any:
    """The same content with every map in another order; lists stay, but for the jobs."""
    if isinstance(content, dict):
        names = list(content)
        order.shuffle(names)
        found = {name: shuffled(content[name], order) for name in names}
        if "jobs" in found:
            order.shuffle(found["jobs"])
        return found
    return [shuffled(each, order) for each in content] if isinstance(content, list) else content


@quick
@given(st.randoms(use_true_random=False))
def test_another_order_of_keys_and_jobs_changes_nothing(order: random.Random) -> None:
    text = yaml.safe_dump(shuffled(yaml.safe_load(TEXT), order), sort_keys=False)
    turned = read(text)
    assert job_fingerprints(turned, CATALOG) == job_fingerprints(DAG, CATALOG)
    assert content_digest(turned) == content_digest(DAG)
    plan = plan_of(text)
    assert plan.is_empty
    assert plan.warnings == ()


@quick
@given(graphs(), graphs(), st.data())
def test_fields_explain_a_job_exactly_when_its_own_content_differs(
    one: Reads, other: Reads, data: st.DataObject
) -> None:
    def sizes(reads: Reads) -> dict[str, int]:
        return {name: data.draw(st.integers(1, 2)) for name in reads}

    old, new = dag_of(file_of(one, sizes(one))), dag_of(file_of(other, sizes(other)))
    changes = compare_dags(old, new, CATALOG)
    before, after = job_contents(old, CATALOG), job_contents(new, CATALOG)
    affected = {job.name for job in changes.jobs if job.kind == "changed" and job.affects_data}
    assert affected == {name for name in before if name in after and before[name] != after[name]}
    assert bool(changes) == (content_digest(old) != content_digest(new))
