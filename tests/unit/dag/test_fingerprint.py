"""Which edits of a DAG file rebuild which jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.graph import descendants
from trace_core.dag.load import load_dag
from trace_core.dag.model import Activation, Runtime
from trace_core.operators.configs import OperatorConfig

# What is edited -> (text in the example, what it becomes, which job was edited).
AFFECTING = {
    "operator": ("operator: parquet_compact", "operator: sql_transform", "compact"),
    "config": ("chunk_size: 10000", "chunk_size: 5000", "chunks"),
    "nested config": ("sort_by: [number]", "sort_by: [number, hash]", "compact"),
    "config default made different": (
        "range_size: 10000, finality_depth: 64",
        "range_size: 10000",
        "ranges",
    ),
    "update strategy": (
        "    update_strategy: append\n    unique_key: [alert_event_id, destination]\n",
        "    update_strategy: replace\n",
        "page_on_critical",
    ),
    "unique key": ("unique_key: [dedupe_key]", "unique_key: [dedupe_key, tx]", "large_transfers"),
    "execution strategy": (
        "operator: parquet_compact\n    execution_strategy: PerPartition",
        "operator: parquet_compact\n    execution_strategy: PerUpdate",
        "compact",
    ),
    "outputs": (
        "    priority: backfill\n    outputs: 3",
        "    priority: backfill\n    outputs: 2",
        "backfill",
    ),
    "filter": ("severity = 'critical'", "severity = 'warning'", "page_on_critical"),
    "filter map": ("where: { topic0:", "where: { topic1:", "transfers"),
    "alias": ("as: hot", "as: warm", "compact"),
    "trigger": ("        as: hot\n", "        as: hot\n        trigger: true\n", "compact"),
    "input": (
        "      - from: { job: follow, output: 2 }\n    outputs: 1\n    update_strategy: append",
        "      - from: { job: follow, output: 1 }\n    outputs: 1\n    update_strategy: append",
        "large_transfers",
    ),
    "external dataset": ("{ dataset: address_labels }", "{ dataset: labels_2 }", "transfers"),
    "source config": ("start_block: 1000000", "start_block: 2000000", "follow"),
}
EXECUTION_ONLY = {
    "attempts": ("max_attempts: 3", "max_attempts: 9"),
    "timeout": ("  timeout_seconds: 900\n", "  timeout_seconds: 600\n"),
    "job timeout": ("timeout_seconds: 3600", "timeout_seconds: 7200"),
    "heartbeat": ("heartbeat_seconds: 30", "heartbeat_seconds: 20"),
    "priority": ("    priority: backfill\n", "    priority: live\n"),
    "concurrency": ("max_concurrency: 20", "max_concurrency: 2"),
    "back pressure": ("max_queued: 500", "max_queued: 5"),
    "slot": ("name: provider_b", "name: provider_c"),
    "slot environment": ("RPC_UPSTREAM: provider_a", "RPC_UPSTREAM: provider_z"),
    "no pool": ("    worker_pool: rpc\n    scaling", "    scaling"),
    "description": ("Canonical blocks, hot and cold.", "Blocks."),
    "dag description": ("Follow the chain, ", "Follow a chain, "),
    "freshness": ("freshness: 60s", "freshness: 61s"),
    "checks": ("column: number", "column: height"),
    "publication": ("  transfers:\n    from", "  moves:\n    from"),
    "comment": ("# PerUpdate | PerPartition", "# one of two"),
    "key order": ("{ job: chunks, output: 0 }", "{ output: 0, job: chunks }"),
    "config key order": (
        "{ chain_id: 10143, start_block: 1000000 }",
        "{ start_block: 1000000, chain_id: 10143 }",
    ),
    "execution-only config": (
        "{ chain_id: 10143, start_block: 1000000 }",
        "{ chain_id: 10143, start_block: 1000000, poll_seconds: 9 }",
    ),
    "default written out": (
        "destination: oncall, max_delivery_age: 7d",
        "max_delivery_age: 7d, destination: oncall",
    ),
    "trigger written out": (
        "    inputs:\n      - from: { job: history, output: 0 }\n",
        "    inputs:\n      - from: { job: history, output: 0 }\n        trigger: true\n",
    ),
    "alias written out": (
        "    inputs:\n      - from: { job: history, output: 0 }\n",
        "    inputs:\n      - from: { job: history, output: 0 }\n        as: history\n",
    ),
    "filter spelling": (
        "severity = 'critical' AND chain_id = 10143",
        "severity='critical'  and  chain_id=10143",
    ),
    "bootstrap": ("reset_outputs: false", "reset_outputs: true"),
    "strategy default written out": (
        "    source: { kind: manual }\n    outputs: 1\n",
        "    source: { kind: manual }\n    outputs: 1\n    update_strategy: replace\n",
    ),
}


def edited(example: str, old: str, new: str) -> str:
    assert old in example
    text = example.replace(old, new, 1)
    if "moves:" in new:
        text = text.replace("  transfers:\n    - {", "  moves:\n    - {")
    if "operator: sql_transform" in new:
        text = text.replace("config: { sort_by: [number] }", "config: { sql: SELECT 1 }")
    return text


@pytest.mark.parametrize("name", AFFECTING)
def test_an_affecting_edit_changes_the_job_and_all_that_read_from_it(
    name: str, example: str, catalog: Catalog
) -> None:
    old, new, job = AFFECTING[name]
    before = load_dag(example, filename="a", catalog=catalog)
    after = load_dag(edited(example, old, new), filename="b", catalog=catalog)
    first, second = job_fingerprints(before, catalog), job_fingerprints(after, catalog)
    changed = {each for each in first if first[each] != second[each]}
    assert changed == {job} | descendants(before, [job])


@pytest.mark.parametrize("name", EXECUTION_ONLY)
def test_an_execution_only_edit_changes_no_fingerprint(
    name: str, example: str, catalog: Catalog
) -> None:
    before = load_dag(example, filename="a", catalog=catalog)
    after = load_dag(edited(example, *EXECUTION_ONLY[name]), filename="b", catalog=catalog)
    assert job_fingerprints(before, catalog) == job_fingerprints(after, catalog)


def test_a_new_code_version_of_an_operator_rebuilds_its_jobs_and_their_readers(
    example: str, catalog: Catalog
) -> None:
    dag = load_dag(example, filename="a", catalog=catalog)
    newer = Catalog(
        *(
            replace(spec, code_version="later") if spec.name == "range_aggregator" else spec
            for spec in catalog.values()
        )
    )
    first, second = job_fingerprints(dag, catalog), job_fingerprints(dag, newer)
    changed = {each for each in first if first[each] != second[each]}
    assert changed == {"ranges", "compact", "transfers"}


def test_a_bundle_is_part_of_the_fingerprint(example: str, catalog: Catalog) -> None:
    def fingerprint(bundle: str) -> str:
        udf = f"udf: {{ bundle: {bundle}, entrypoint: rules.handler }}"
        text = example.replace("operator: alert_evaluate", udf)
        dag = load_dag(text, filename="a", catalog=catalog)
        return job_fingerprints(dag, catalog)["large_transfers"]

    assert fingerprint("one") == fingerprint("one")
    assert fingerprint("one") != fingerprint("two")


def test_fingerprints_do_not_depend_on_the_order_of_jobs(example: str, catalog: Catalog) -> None:
    dag = load_dag(example, filename="a", catalog=catalog)
    turned = replace(dag, jobs=dag.jobs[::-1])
    assert job_fingerprints(turned, catalog) == job_fingerprints(dag, catalog)


def test_the_form_of_a_fingerprint_is_kept(example: str, catalog: Catalog) -> None:
    # Deployed versions are compared with it: a change here rebuilds everybody's data.
    dag = load_dag(example, filename="a", catalog=catalog)
    assert job_fingerprints(dag, catalog)["history"] == (
        "cc07239acddf53a76154313b5059da68a49a5918888a17188c2a0773d73c8227"
    )


def test_sources_that_are_defined_alike_are_not_the_same_source(
    example: str, catalog: Catalog
) -> None:
    history = example[example.index("  - name: history") : example.index("  - name: chunks")]
    both = example.replace(history, history + history.replace("history", "other_history"))
    from_other = both.replace(
        "- from: { job: history, output: 0 }",
        "- { from: { job: other_history, output: 0 }, as: history }",
    )
    first, second = (
        job_fingerprints(load_dag(text, filename="a", catalog=catalog), catalog)
        for text in (both, from_other)
    )
    assert first["history"] != first["other_history"]
    assert {name for name in first if first[name] != second[name]} == {"chunks", "backfill"}


def test_a_set_in_a_config_has_one_order_in_every_process() -> None:
    # The order of a set depends on the process; other processes must compute the same hash.
    class Config(OperatorConfig):
        names: frozenset[str]
        inner: dict[str, frozenset[str]] = {}  # noqa: RUF012

    spec = OperatorSpec(
        "sets",
        "1",
        frozenset({Activation.SOURCE}),
        frozenset({Runtime.WORKER}),
        Config,
        "Has a set.",
    )
    names = [f"name_{number}" for number in range(40)]
    text = (
        "version: 1\nname: x\njobs:\n  - name: a\n    activation: source\n    runtime: worker\n"
        "    operator: sets\n    source: { kind: manual }\n    outputs: 1\n"
        "    update_strategy: replace\n"
        f"    config: {{ names: {names[::-1]}, inner: {{ x: {names[::-1]} }} }}\n"
    )
    dag = load_dag(text, filename="a", catalog=Catalog(spec))
    assert dag.job("a").config == {"names": sorted(names), "inner": {"x": sorted(names)}}
