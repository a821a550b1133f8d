"""What a plan says about jobs, estimates, sources and the cut over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.deploy.edits import PUBLISH_VOLUMES, REBUILDS, sql_job
from tests.unit.deploy.market import (
    CATALOG,
    DAG,
    TEXT,
    active_facts,
    busy_facts,
    edited,
    newer_code,
    plan_of,
    read,
)
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.deploy.plan import make_plan
from trace_core.deploy.plan_facts import BuiltJob, OutputFacts, PlanFacts
from trace_core.deploy.plan_model import Action, Plan, exit_code

NEW_FILTER = edited(("amount >= 10", "amount > 10"))
NEW_CHUNKS = edited(("chunk_size: 10000", "chunk_size: 5000"))


def actions(plan: Plan) -> dict[Action, set[str]]:
    found: dict[Action, set[str]] = {}
    for job in plan.jobs:
        found.setdefault(job.action, set()).add(job.name)
    return found


def test_every_job_is_kept_added_removed_or_changed() -> None:
    plan = plan_of(edited(*REBUILDS["renamed job"][0]))
    assert actions(plan) == {
        Action.ADDED: {"summary"},
        Action.REMOVED: {"report"},
        Action.CHANGED: {"mail"},
        Action.KEPT: {job.name for job in DAG.jobs} - {"report", "mail"},
    }
    assert any("summary is report under another name" in each for each in plan.warnings)


def test_a_job_that_was_built_before_is_taken_up_again_with_what_it_missed() -> None:
    fingerprints = job_fingerprints(read(NEW_FILTER), CATALOG)
    built = {
        ("volumes", fingerprints["volumes"]): BuiltJob(2, missed=12),
        ("report", fingerprints["report"]): BuiltJob(2),
    }
    plan = plan_of(NEW_FILTER, replace(active_facts(), built=built))
    assert actions(plan)[Action.REUSED] == {"volumes", "report"}
    assert plan.rebuild_set == {"mail"}
    assert (plan.job("volumes").reused_version, plan.job("volumes").missed) == (2, 12)
    assert plan.job("report").missed is None
    assert {each.output: each.to for each in plan.cut_over.pointers} == {
        "volumes.0": "what version 2 had",
        "report.0": "what version 2 had",
        "mail.0": "what is built",
    }


def test_what_was_built_under_another_name_or_another_definition_does_not_count() -> None:
    fingerprints = job_fingerprints(read(NEW_FILTER), CATALOG)
    built = {
        ("senders", fingerprints["volumes"]): BuiltJob(2),
        ("report", "of something else"): BuiltJob(2),
    }
    plan = plan_of(NEW_FILTER, replace(active_facts(), built=built))
    assert plan.rebuild_set == {"volumes", "report", "mail"}


def test_a_downstream_job_names_the_way_from_the_edited_one() -> None:
    plan = plan_of(NEW_CHUNKS)
    assert plan.job("chunks").edited
    assert plan.job("chunks").because == ()
    assert plan.job("transfers").because == ("chunks", "backfill", "transfers")
    assert plan.job("report").because[:4] == ("chunks", "backfill", "transfers", "volumes")


def test_execution_only_fields_of_a_kept_job_are_listed_with_their_line() -> None:
    plan = plan_of(edited(("max_concurrency: 20", "max_concurrency: 8")))
    (edit,) = plan.job("backfill").edits
    assert (edit.field, edit.old, edit.new) == ("scaling.max_concurrency", 20, 8)
    assert edit.effect == "runs differently"
    assert TEXT.splitlines()[(edit.line or 0) - 1].strip() == "scaling: { max_concurrency: 20 }"
    assert plan.cut_over.pointers == ()
    assert plan.cut_over.held == ()


def test_a_setting_that_jobs_inherit_stands_where_it_is_written() -> None:
    plan = plan_of(edited(("timeout_seconds: 600", "timeout_seconds: 900")))
    lines = {job.edits[0].line for job in plan.jobs}
    assert lines == {TEXT.splitlines().index("  timeout_seconds: 600") + 1}


def test_names_of_secrets_are_not_part_of_a_plan() -> None:
    plan = plan_of(edited(("RPC_KEY: rpc_key_a", "RPC_KEY: rpc_key_z")))
    text = json.dumps(plan.to_json())
    assert "rpc_key" not in text
    assert "worker_pools.rpc.provider_a.secrets.RPC_KEY" in text


def test_the_first_version_adds_every_job_and_estimates_nothing() -> None:
    plan = make_plan(None, DAG, CATALOG, PlanFacts("empty"))
    assert set(actions(plan)) == {Action.ADDED}
    assert plan.total is None
    assert plan.cut_over.held == ()
    assert plan.warnings == ()
    assert exit_code(plan) == 2


def test_an_active_version_whose_file_cannot_be_read_is_compared_by_fingerprints() -> None:
    plan = plan_of(NEW_CHUNKS, old=None)
    assert plan.rebuild_set == plan_of(NEW_CHUNKS).rebuild_set
    assert plan.job("chunks").edited and not plan.job("backfill").edited
    assert plan.job("follow").action is Action.KEPT
    assert "cannot be read" in plan.warnings[0]


# The estimate


def test_an_estimate_says_what_it_is_taken_from() -> None:
    estimate = plan_of(NEW_CHUNKS, busy_facts()).job("transfers").estimate
    assert estimate is not None
    assert (estimate.partitions, estimate.rows, estimate.bytes) == (1_240, 3_100_000, 820_000_000)
    assert estimate.seconds == pytest.approx(1_240 / 4 * 1.2)
    assert estimate.basis == "last 20 partitions of version 3, p50 1.2 s each, 4 at once"


def test_a_pool_with_few_slots_limits_what_runs_at_once() -> None:
    estimate = plan_of(NEW_CHUNKS, busy_facts()).job("backfill").estimate
    assert estimate is not None
    assert estimate.seconds == pytest.approx(100 / 2 * 39.5)
    assert estimate.rows == 181_000_000, "of both outputs"


def test_what_is_not_known_stays_unknown_and_never_becomes_0() -> None:
    plan = plan_of(NEW_CHUNKS, active_facts())
    for job in plan.jobs:
        if job.rebuilds:
            assert job.estimate is not None
            figures = job.estimate
            assert (figures.partitions, figures.rows, figures.bytes, figures.seconds) == (None,) * 4
    assert plan.total is not None
    assert plan.total.partitions is None
    assert plan.total.seconds is None


def test_a_total_that_leaves_something_out_says_so() -> None:
    total = plan_of(NEW_CHUNKS, busy_facts()).total
    assert total is not None
    assert total.at_least == ("partitions", "rows", "bytes", "seconds")
    small = OutputFacts(1, 1, 1)
    facts = replace(
        busy_facts(),
        outputs={**busy_facts().outputs, ("report", 0): small, ("mail", 0): small},
        durations={**busy_facts().durations, "report": (1.0,), "mail": (2.0,)},
    )
    whole = plan_of(edited(("SELECT DISTINCT sender", "SELECT sender")), facts).total
    assert whole is not None
    assert whole.at_least == ()
    assert whole.partitions == 1_242


def test_the_time_is_that_of_the_longest_path_because_branches_run_at_once() -> None:
    facts = replace(
        busy_facts(), durations={**busy_facts().durations, "report": (1.0,), "mail": (1.0,)}
    )
    plan = plan_of(edited(("l.amount, l.sender", "l.sender, l.amount")), facts)
    assert plan.total is not None
    assert plan.total.longest_path == ("transfers", "volumes", "report", "mail")
    seconds = {job.name: job.estimate.seconds for job in plan.jobs if job.estimate}
    path = ("transfers", "volumes", "report")
    assert plan.total.seconds == pytest.approx(sum(seconds[name] or 0 for name in path))


def test_a_new_job_is_estimated_from_what_triggers_it() -> None:
    text = edited(("publish:\n", sql_job("counts", "transfers") + "publish:\n"))
    estimate = plan_of(text, busy_facts()).job("counts").estimate
    assert estimate is not None
    assert estimate.partitions == 1_240
    assert (estimate.rows, estimate.seconds) == (None, None)
    assert estimate.basis == "one for each partition of transfers.0; not timed yet"


def test_a_source_is_estimated_from_its_requests() -> None:
    text = edited(("source: { kind: manual }", "source: { kind: webhook, path: /ranges }"))
    estimate = plan_of(text, busy_facts()).job("history").estimate
    assert estimate is not None
    assert estimate.partitions == 2


# Buffered outputs, sources, cut over


def test_a_job_is_not_run_for_its_buffered_outputs() -> None:
    plan = plan_of(edited(("[large_transfer]", "[mint]")), busy_facts())
    job = plan.job("whales")
    assert job.rebuilds and not job.runs
    assert job.buffered == ("whales.0 (whale_events)",)
    assert job.estimate is not None
    assert (job.estimate.partitions, job.estimate.basis) == (0, "not run: its outputs are buffered")
    assert plan.cut_over.pointers == ()
    assert any("does not run whales for whales.0 (whale_events)" in each for each in plan.warnings)


SOURCES = {
    "manual": (
        "operator: range_request\n    source: { kind: manual }",
        "operator: range_request\n    source: { kind: webhook, path: /ranges }",
        "history",
        "its requests are replayed, the oldest first",
    ),
    "always on": (
        "start_block: 1000000",
        "start_block: 1",
        "follow",
        "the cut over waits until it has covered what the old one covers",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_changed_source_begins_anew_and_says_what_becomes_of_its_past(name: str) -> None:
    old, new, job, past = SOURCES[name]
    plan = plan_of(edited((old, new)))
    assert [(each.job, each.past) for each in plan.sources] == [(job, past)]
    assert plan.cut_over.waits_for == (("follow",) if job == "follow" else ())


def test_a_changed_cron_source_and_what_it_alone_feeds_begin_empty() -> None:
    catalog = newer_code("trigger_cron")
    plan = plan_of(TEXT, busy_facts(), catalog=catalog, old=read(TEXT, catalog))
    assert plan.rebuild_set == {"nightly", "mail"}
    assert plan.sources[0].past.startswith("it starts at its next tick")
    estimates = [plan.job(name).estimate for name in ("nightly", "mail")]
    assert [each.partitions if each else None for each in estimates] == [0, 0]
    assert any("nightly begins empty at its next tick, and so do mail" in w for w in plan.warnings)


def test_a_job_that_something_else_triggers_too_does_not_begin_empty() -> None:
    text = edited(
        (
            "      - from: { job: nightly, output: 0 }\n",
            "      - { from: { job: nightly, output: 0 }, trigger: true }\n"
            "      - { from: { dataset: calendar }, trigger: true }\n",
        )
    )
    catalog = newer_code("trigger_cron")
    old = read(text, catalog)
    plan = plan_of(text, active_facts(read(text)), catalog=catalog, old=old)
    assert plan.rebuild_set == {"nightly", "mail"}
    assert [each for each in plan.warnings if "begins empty" in each] == [
        "nightly begins empty at its next tick: rows from before stay in version 3 only."
    ]


def test_a_source_that_goes_on_by_another_schedule_does_not_begin_anew() -> None:
    plan = plan_of(edited(("0 3 * * *", "0 4 * * *")))
    assert plan.sources == ()


def test_the_cut_over_holds_the_live_work_of_changed_jobs_only() -> None:
    plan = plan_of(NEW_FILTER, busy_facts())
    assert plan.cut_over.held == ("volumes", "report", "mail")
    assert plan.cut_over.external_inputs == ()
    assert plan_of(NEW_CHUNKS).cut_over.external_inputs == ("address_labels",)


def test_other_dags_are_told_to_read_a_dataset_again() -> None:
    plan = plan_of(NEW_CHUNKS, busy_facts())
    told = [(each.dataset, each.reader) for each in plan.cut_over.invalidations]
    assert told == [("transfers", "reports.daily_volume"), ("transfers", "lake.export")]
    assert plan_of(NEW_FILTER, busy_facts()).cut_over.invalidations == (), (
        "alert rules are not jobs"
    )


def test_a_removed_job_ends_and_its_data_stays() -> None:
    plan = plan_of(edited(*REBUILDS["removed leaf"][0]))
    assert plan.cut_over.removed == ("mail",)
    assert plan.job("mail").action is Action.REMOVED
    assert plan.rebuild_set == frozenset()


# The plan as a value


def test_the_same_arguments_give_the_same_plan() -> None:
    one, other = plan_of(NEW_CHUNKS, busy_facts()), plan_of(NEW_CHUNKS, busy_facts())
    assert one == other
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_the_keys_of_the_json_come_in_one_order() -> None:
    content = plan_of(NEW_CHUNKS, busy_facts()).to_json()
    assert list(content)[:8] == [
        "digest",
        "is_empty",
        "rebuild_set",
        "dag",
        "from_version",
        "from_digest",
        "to_digest",
        "state_token",
    ]
    assert json.loads(json.dumps(content)) == content
    assert content["rebuild_set"] == sorted(content["rebuild_set"])


def test_the_digest_names_what_is_done_and_not_what_is_estimated() -> None:
    plan = plan_of(NEW_CHUNKS, busy_facts())
    faster = replace(busy_facts(), durations={}, outputs={}, state_token="moved")
    assert plan_of(NEW_CHUNKS, faster).digest == plan.digest
    assert plan_of("# a comment\n" + NEW_CHUNKS, busy_facts()).digest == plan.digest
    assert plan_of(NEW_FILTER, busy_facts()).digest != plan.digest
    without_readers = replace(busy_facts(), readers={})
    assert plan_of(NEW_CHUNKS, without_readers).digest != plan.digest


def test_exit_codes_are_those_of_a_pipeline() -> None:
    assert exit_code(plan_of(TEXT)) == 0
    assert exit_code(plan_of(edited((PUBLISH_VOLUMES, "")))) == 2
    assert exit_code(None) == 1
