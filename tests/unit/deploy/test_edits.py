"""Every named edit rebuilds exactly the jobs that its table says."""

from __future__ import annotations

import pytest

from tests.unit.deploy.edits import CODE, NOTHING_REBUILDS, REBUILDS, SAME
from tests.unit.deploy.market import (
    CATALOG,
    DAG,
    TEXT,
    active_facts,
    edited,
    newer_code,
    plan_of,
    read,
)
from trace_core.dag.changes import compare_dags
from trace_core.dag.digest import content_digest
from trace_core.dag.problems import DagInvalid
from trace_core.deploy.plan_model import Action, exit_code


@pytest.mark.parametrize("name", SAME)
def test_what_is_only_written_another_way_is_no_edit(name: str) -> None:
    text = edited(*SAME[name])
    plan = plan_of(text)
    assert plan.is_empty
    assert plan.rebuild_set == frozenset()
    assert exit_code(plan) == 0
    assert content_digest(read(text)) == content_digest(DAG)


@pytest.mark.parametrize("name", NOTHING_REBUILDS)
def test_an_edit_that_does_not_reach_data_rebuilds_nothing(name: str) -> None:
    text = edited(*NOTHING_REBUILDS[name])
    plan = plan_of(text)
    assert plan.rebuild_set == frozenset()
    assert {job.action for job in plan.jobs} == {Action.KEPT}
    assert not plan.is_empty, "an edit must be seen"
    assert exit_code(plan) == 2
    assert content_digest(read(text)) != content_digest(DAG)


@pytest.mark.parametrize("name", REBUILDS)
def test_an_edit_that_reaches_data_rebuilds_exactly_the_edited_jobs_and_all_behind_them(
    name: str,
) -> None:
    edits, expected = REBUILDS[name]
    plan = plan_of(edited(*edits))
    assert plan.rebuild_set == frozenset(expected.split())
    assert exit_code(plan) == 2


@pytest.mark.parametrize("name", REBUILDS)
def test_every_rebuild_is_explained_by_an_edit_or_by_a_way_from_one(name: str) -> None:
    plan = plan_of(edited(*REBUILDS[name][0]))
    for job in plan.jobs:
        if not job.rebuilds:
            continue
        if job.edited:
            explained = [each.field for each in job.edits if each.effect == "affects data"]
            assert explained or job.action is Action.ADDED, job.name
        else:
            assert plan.job(job.because[0]).edited
            assert job.because[-1] == job.name
            assert not any(each.effect == "affects data" for each in job.edits)


@pytest.mark.parametrize("known", [True, False], ids=["version kept", "version not kept"])
@pytest.mark.parametrize("name", CODE)
def test_newer_code_of_an_operator_rebuilds_its_jobs_and_all_behind_them(
    name: str, known: bool
) -> None:
    operator, expected = CODE[name]
    catalog = newer_code(operator)
    facts = active_facts(code_versions=known)
    plan = plan_of(TEXT, facts, catalog=catalog, old=read(TEXT, catalog))
    assert plan.rebuild_set == frozenset(expected.split())
    edited_jobs = {job.name for job in plan.jobs if job.edited}
    using = {job.name for job in DAG.jobs if job.operator == operator}
    # Without the old version, one that reads another of them cannot be told from its readers.
    assert edited_jobs == using if known else edited_jobs <= using
    assert bool(edited_jobs) == bool(expected)
    for name_of in edited_jobs:
        assert [each.field for each in plan.job(name_of).edits] == ["code version"]


def test_the_tables_name_enough_edits() -> None:
    assert len(SAME) + len(NOTHING_REBUILDS) + len(REBUILDS) + len(CODE) >= 55


def test_no_edit_is_named_in_two_tables() -> None:
    assert not set(SAME) & set(NOTHING_REBUILDS) and not set(REBUILDS) & {*SAME, *NOTHING_REBUILDS}


@pytest.mark.parametrize("name", [*SAME, *NOTHING_REBUILDS])
def test_fields_say_that_data_is_affected_only_where_it_is(name: str) -> None:
    text = edited(*(SAME | NOTHING_REBUILDS)[name])
    changes = compare_dags(DAG, read(text), CATALOG)
    assert not any(job.affects_data for job in changes.jobs)


def test_an_anchor_is_refused_at_its_line_and_never_planned() -> None:
    with pytest.raises(DagInvalid) as refused:
        read(edited(("source: { kind: manual }", "source: &manual { kind: manual }")))
    assert [(each.code, each.line) for each in refused.value.problems] == [("yaml_anchor", 34)]
