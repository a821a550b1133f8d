"""The example file, and what is refused before its content is even looked at."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from trace_core.dag import positions, problems
from trace_core.dag.catalog import Catalog
from trace_core.dag.filters import Comparison, Operator
from trace_core.dag.load import load_dag
from trace_core.dag.model import (
    CheckKind,
    DatasetName,
    JobOutput,
    Priority,
    Runtime,
    SourceKind,
    Storage,
    UpdateStrategy,
    WriteMode,
    capability_token_lifetime,
)
from trace_core.dag.problems import DagInvalid
from trace_core.kernel import limits

Load = Callable[[str], object]


def problems_of(text: str | bytes, catalog: Catalog) -> tuple[problems.Problem, ...]:
    with pytest.raises(DagInvalid) as caught:
        load_dag(text, filename="test.dag.yaml", catalog=catalog)
    return caught.value.problems


def test_the_example_is_valid_and_keeps_everything_it_says(example: str, catalog: Catalog) -> None:
    dag = load_dag(example, filename="example.dag.yaml", catalog=catalog)
    assert dag.name == "monad_mainnet"
    assert [job.name for job in dag.jobs][:3] == ["follow", "history", "chunks"]
    assert [slot.secrets for slot in dag.worker_pools[0].slots] == [
        {"RPC_KEY": "rpc_key_a"},
        {"RPC_KEY": "rpc_key_b"},
    ]
    follow, backfill, transfers = dag.job("follow"), dag.job("backfill"), dag.job("transfers")
    assert follow.source is not None
    assert follow.source.kind is SourceKind.ALWAYS_ON
    assert follow.heartbeat == timedelta(seconds=30)
    assert {name: follow.config[name] for name in ("chain_id", "start_block", "poll_seconds")} == {
        "chain_id": 10143,
        "start_block": 1000000,
        "poll_seconds": 0.5,
    }
    assert dag.job("history").update_strategy is UpdateStrategy.REPLACE
    assert backfill.max_concurrency == 20
    assert backfill.priority is Priority.BACKFILL
    assert transfers.runtime is Runtime.EMR_SERVERLESS
    assert transfers.timeout == timedelta(hours=1)
    assert transfers.token_lifetime == timedelta(hours=1, minutes=5)
    assert [each.alias for each in transfers.inputs] == ["ranges", "logs", "labels"]
    assert [each.trigger for each in transfers.inputs] == [True, False, False]
    assert transfers.inputs[2].origin == DatasetName("address_labels")
    assert isinstance(transfers.inputs[1].where, Comparison)
    assert transfers.inputs[1].where.operator is Operator.EQUAL
    blocks, whales = dag.publications[0], dag.publications[2]
    assert blocks.parts == (
        JobOutput("follow", 0),
        JobOutput("backfill", 0),
        JobOutput("compact", 0),
    )
    assert blocks.freshness == timedelta(minutes=1)
    assert blocks.storage is None
    assert whales.write_mode is WriteMode.BUFFERED
    assert whales.storage is Storage.POSTGRES
    assert whales.schema is not None
    assert whales.schema.unique == ("dedupe_key",)
    assert whales.schema.indexes == (("event_time",),)
    assert [(check.dataset, check.kind) for check in dag.checks] == [
        ("blocks", CheckKind.NO_GAPS),
        ("blocks", CheckKind.UNIQUE),
        ("transfers", CheckKind.NOT_NULL),
    ]


def test_a_user_bundle_takes_the_place_of_an_operator(example: str, catalog: Catalog) -> None:
    text = example.replace(
        "    operator: alert_evaluate\n",
        '    udf: { bundle: 5f0c, entrypoint: "rules.handler" }\n',
    )
    job = load_dag(text, filename="udf.dag.yaml", catalog=catalog).job("large_transfers")
    assert job.operator is None
    assert job.udf is not None
    assert job.udf.entrypoint == "rules.handler"
    assert job.config == {"rules": ["large_transfer"]}


def test_bytes_a_byte_order_mark_and_other_line_ends_change_nothing(
    example: str, catalog: Catalog
) -> None:
    plain = load_dag(example, filename="a", catalog=catalog)
    windows = b"\xef\xbb\xbf" + example.replace("\n", "\r\n").encode()
    assert load_dag(windows, filename="b", catalog=catalog) == plain


def test_an_explicit_trigger_replaces_the_first_input(example: str, catalog: Catalog) -> None:
    text = example.replace("        as: hot\n", "        as: hot\n        trigger: true\n")
    inputs = load_dag(text, filename="a", catalog=catalog).job("compact").inputs
    assert [each.trigger for each in inputs] == [False, True]


def test_a_file_over_the_limit_is_refused_without_reading_it(catalog: Catalog) -> None:
    found = problems_of("a: " + "x" * limits.DAG_FILE_MAX, catalog)
    assert [each.code for each in found] == ["file_too_large"]


def test_the_number_of_values_is_bounded(catalog: Catalog) -> None:
    found = problems_of("a: [" + "x," * (positions.VALUES_MAX + 1) + "]", catalog)
    assert "too_many_values" in [each.code for each in found]


def test_the_list_of_problems_is_bounded_and_says_so(catalog: Catalog) -> None:
    found = problems_of("".join(f"key_{i}: 1\n" for i in range(20_000)), catalog)
    assert len(found) == problems.PROBLEMS_MAX + 1
    assert found[-1].code == "too_many_problems"


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nname: a\njobs: " + "[" * 400_000,
        "version: 1\nname: a\njobs: " + "{a: " * 200_000,
        "- " * 400_000,
        "? " * 400_000,
        "version: 1\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 2000)),
        "a: " + "9" * 900_000,
        "a: 0x" + "f" * 900_000,
        "a: 1e" + "9" * 900_000,
        "jobs:\n" + "- {name: a, inputs: [{from: {job: b, output: 0}}]}\n" * 15_000,
        'jobs: [{inputs: [{where: "' + "(" * 60_000 + '"}]}]',
        'jobs: [{inputs: [{where: "' + "NOT " * 15_000 + '"}]}]',
        'jobs: [{inputs: [{where: "a IN (' + "1," * 30_000 + '1)"}]}]',
        "'" + "a''" * 300_000,
        "a: |\n" + " x\n" * 300_000,
        "\t" * 900_000,
        "&" * 900_000,
        "# " + "x" * 900_000,
        "a:\n" * 300_000,
    ],
    ids=lambda text: text[:24].replace("\n", "|"),
)
def test_hostile_files_are_refused_in_a_moment(text: str, catalog: Catalog) -> None:
    before = time.perf_counter()
    problems_of(text, catalog)
    assert time.perf_counter() - before < 10


def test_a_worst_case_of_wrong_references_is_still_refused_in_a_moment(catalog: Catalog) -> None:
    jobs = "".join(
        f"- {{name: {'ab' * 60}{i:03}, activation: reactive, runtime: dispatcher, outputs: 1, "
        f"operator: range_splitter, execution_strategy: PerUpdate, config: {{chunk_size: 1}}, "
        f"inputs: [{{from: {{job: {'ba' * 60}{i:03}, output: 0}}}}]}}\n"
        for i in range(limits.DAG_JOBS_MAX)
    )
    before = time.perf_counter()
    found = problems_of(f"version: 1\nname: a\njobs:\n{jobs}", catalog)
    assert len(found) == problems.PROBLEMS_MAX + 1
    assert time.perf_counter() - before < 10


def test_five_hundred_jobs_in_a_chain_are_read(catalog: Catalog) -> None:
    head = (
        "version: 1\nname: chain\njobs:\n- {name: job_0, activation: source, outputs: 1, "
        "runtime: dispatcher, operator: range_request, source: {kind: manual}}\n"
    )
    links = "".join(
        f"- {{name: job_{i}, activation: reactive, runtime: dispatcher, outputs: 1, "
        f"operator: range_splitter, execution_strategy: PerUpdate, config: {{chunk_size: 1}}, "
        f"inputs: [{{from: {{job: job_{i - 1}, output: 0}}}}]}}\n"
        for i in range(1, limits.DAG_JOBS_MAX)
    )
    assert len(load_dag(head + links, filename="a", catalog=catalog).jobs) == limits.DAG_JOBS_MAX
    closed = head + links.replace("job: job_0,", "job: job_499,")
    found = problems_of(closed, catalog)
    assert [each.code for each in found] == ["cycle"]
    assert found[0].reason.endswith("job_499 -> job_1")


def test_a_token_covers_every_timeout_the_platform_allows() -> None:
    longest = limits.PLATFORM_MAX_TIMEOUT
    assert capability_token_lifetime(longest) >= longest
    assert capability_token_lifetime(timedelta(hours=25)) < timedelta(hours=25)


def test_a_token_that_would_be_too_short_is_refused(
    example: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CAPABILITY_TOKEN_CAP", timedelta(minutes=30))
    codes = [each.code for each in problems_of(example, catalog)]
    assert codes == ["token_too_short"]


def test_a_secret_written_by_mistake_is_not_repeated_in_the_error(
    example: str, catalog: Catalog
) -> None:
    text = example.replace("RPC_KEY: rpc_key_a", "RPC_KEY: sk-LIVE-very-secret")
    with pytest.raises(DagInvalid) as caught:
        load_dag(text, filename="a", catalog=catalog)
    assert "very-secret" not in str(caught.value.body())
