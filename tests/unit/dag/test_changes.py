"""Fields that differ between two files, and why each matters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trace_core.dag.catalog import Catalog
from trace_core.dag.changes import OTHER_SECRET, SECRET, compare_dags
from trace_core.dag.field_changes import Effect, FieldChange, Kind
from trace_core.dag.model import Dag

Load = Callable[[str], Dag]


@pytest.fixture
def fields(example: str, load: Load, catalog: Catalog) -> Callable[..., list[FieldChange]]:
    """All changed fields of the example after an edit."""

    def compared(*edits: tuple[str, str]) -> list[FieldChange]:
        text = example
        for old, new in edits:
            assert old in text
            text = text.replace(old, new, 1)
        changes = compare_dags(load(example), load(text), catalog)
        parts = [*changes.jobs, *changes.datasets]
        return [*changes.fields, *(field for part in parts for field in part.fields)]

    return compared


FIELDS = {
    # edit -> field, old, new, effect, where it stands
    ("chunk_size: 10000", "chunk_size: 5"): (
        "config.chunk_size", 10000, 5, Effect.DATA, "jobs[2].config.chunk_size",
    ),
    ("start_block: 1000000", "start_block: 1000000, poll_seconds: 5.0"): (
        "config.poll_seconds", 0.5, 5.0, Effect.RUN, "jobs[0].config.poll_seconds",
    ),
    ("max_queued: 500", "max_queued: 5"): (
        "backpressure.max_queued", 500, 5, Effect.RUN, "jobs[5].backpressure.max_queued",
    ),
    ("timeout_seconds: 3600", "timeout_seconds: 60"): (
        "timeout_seconds", 3600, 60, Effect.RUN, "jobs[6].timeout_seconds",
    ),
    ("reset_outputs: false", "reset_outputs: true"): (
        "bootstrap.reset_outputs", False, True, Effect.NOTHING, "jobs[0].bootstrap.reset_outputs",
    ),
    ("as: hot", "as: warm"): (
        "inputs[1].as", "hot", "warm", Effect.DATA, "jobs[5].inputs[1].as",
    ),
    ("{ dataset: address_labels }", "{ dataset: other_labels }"): (
        "inputs[2].from", "address_labels", "other_labels", Effect.DATA, "jobs[6].inputs[2].from",
    ),
    ("'critical' AND", "'warning' AND"): (
        "inputs[0].where",
        "severity = 'critical' AND chain_id = 10143",
        "severity = 'warning' AND chain_id = 10143",
        Effect.DATA,
        "jobs[8].inputs[0].where",
    ),
    ("Canonical blocks, hot and cold.", "Blocks."): (
        "description",
        "Canonical blocks, hot and cold.",
        "Blocks.",
        Effect.NOTHING,
        "publish.blocks.description",
    ),
    ("freshness: 60s", "freshness: 2h"): (
        "freshness", "1m", "2h", Effect.RUN, "publish.blocks.freshness",
    ),
    ("pii: [] ", "pii: [hash] "): ("pii", [], ["hash"], Effect.ACCESS, "publish.blocks.pii"),
    ("severity: text", "severity: jsonb"): (
        "schema.columns.severity",
        "text",
        "jsonb",
        Effect.DATA,
        "publish.whale_events.schema.columns.severity",
    ),
    ("indexes: [[event_time]]", "indexes: [[severity]]"): (
        "schema.indexes",
        [["event_time"]],
        [["severity"]],
        Effect.RUN,
        "publish.whale_events.schema.indexes",
    ),
    ("columns: [tx_hash]", "columns: [label]"): (
        "checks", ["not_null tx_hash"], ["not_null label"], Effect.RUN, "checks.transfers",
    ),
    ("RPC_UPSTREAM: provider_b", "RPC_UPSTREAM: other"): (
        "worker_pools.rpc.provider_b.env.RPC_UPSTREAM",
        "provider_b",
        "other",
        Effect.RUN,
        "worker_pools.rpc[1].env.RPC_UPSTREAM",
    ),
    ("RPC_KEY: rpc_key_a", "RPC_KEY: rpc_key_z"): (
        "worker_pools.rpc.provider_a.secrets.RPC_KEY",
        SECRET,
        OTHER_SECRET,
        Effect.RUN,
        "worker_pools.rpc[0].secrets.RPC_KEY",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", FIELDS, ids=lambda edit: edit[1])
def test_one_edit_is_one_field_with_its_values_its_effect_and_its_place(
    edit: tuple[str, str], fields: Callable[..., list[FieldChange]]
) -> None:
    (found,) = fields(edit)
    assert (found.field, found.old, found.new, found.effect, found.place) == FIELDS[edit]


def test_the_four_effects_are_said_in_plain_words() -> None:
    assert [effect.value for effect in Effect] == [
        "affects data",
        "runs differently",
        "who may see it",
        "needs nothing",
    ]


def test_an_equal_file_has_no_changes(example: str, load: Load, catalog: Catalog) -> None:
    assert not compare_dags(load(example), load(example), catalog)


def test_every_job_of_a_first_version_is_added(example: str, load: Load, catalog: Catalog) -> None:
    changes = compare_dags(None, load(example), catalog)
    assert {job.kind for job in changes.jobs} == {Kind.ADDED}
    assert [job.name for job in changes.jobs] == [job.name for job in load(example).jobs]


def test_an_input_that_comes_or_goes_is_told_in_one_line(
    fields: Callable[..., list[FieldChange]],
) -> None:
    extra = "        as: hot\n      - from: { job: follow, output: 1 }\n        as: more\n"
    (found,) = fields(("        as: hot\n", extra))
    assert (found.field, found.old, found.new) == ("inputs[2]", None, "follow.1 as more")
    (gone,) = fields(("      - from: { dataset: address_labels }     # another DAG's dataset: a "
                      "shared read\n        as: labels\n", ""))  # fmt: skip
    assert (gone.field, gone.old, gone.new) == ("inputs[2]", "address_labels as labels", None)


def test_an_input_that_moves_is_an_edit(fields: Callable[..., list[FieldChange]]) -> None:
    inputs = (
        "      - from: { job: ranges, output: 0 }      # the first input triggers; others are read"
        " at their pin\n      - from: { job: follow, output: 0 }\n        as: hot\n"
    )
    turned = (
        "      - { from: { job: follow, output: 0 }, as: hot, trigger: false }\n"
        "      - { from: { job: ranges, output: 0 }, trigger: true }\n"
    )
    (found,) = fields((inputs, turned))
    assert (found.field, found.effect) == ("inputs", Effect.DATA)
    assert (found.old, found.new) == (["ranges", "hot"], ["hot", "ranges"])


def test_numbers_and_truth_are_told_apart_in_the_config_of_users_code(
    example: str, load: Load, catalog: Catalog
) -> None:
    def with_config(config: str) -> Dag:
        udf = "udf: { bundle: b, entrypoint: rules.run }"
        text = example.replace("operator: alert_evaluate", udf)
        return load(text.replace("{ rules: [large_transfer] }", config))

    for old, new in (
        ("{ x: 1 }", "{ x: true }"),
        ("{ x: 1 }", "{ x: 1.0 }"),
        ("{ y: 1 }", "{ y: 1, x: null }"),
        ("{ x: { y: 1 } }", "{ x: { y: 1, z: null } }"),
    ):
        changes = compare_dags(with_config(old), with_config(new), catalog)
        assert [job.affects_data for job in changes.jobs] == [True], (old, new)
