"""What an edit does to published datasets, and whom it breaks."""

from __future__ import annotations

import pytest

from tests.unit.deploy.edits import PUBLISH_VOLUMES
from tests.unit.deploy.market import FILE, TEXT, busy_facts, edited, plan_of
from trace_core.deploy.plan_datasets import widens
from trace_core.deploy.plan_model import DatasetAction, SchemaChange

# Edit of `publish` -> field, whether its readers survive it.
SCHEMA: dict[str, tuple[tuple[str, str], str, bool]] = {
    "column added": (
        ("        label: text\n", "        label: text\n        fee: numeric\n"),
        "schema.columns.fee",
        True,
    ),
    "column removed": (("        label: text\n", ""), "schema.columns.label", False),
    "wider type": (("numeric(38)", "numeric(78)"), "schema.columns.amount", True),
    "any number": (("numeric(38)", "numeric"), "schema.columns.amount", True),
    "more digits behind the point, fewer before it": (
        ("numeric(38)", "numeric(38, 10)"),
        "schema.columns.amount",
        False,
    ),
    "integer to enough digits": (
        ("block_number: bigint", "block_number: numeric(20)"),
        "schema.columns.block_number",
        True,
    ),
    "integer to too few digits": (
        ("block_number: bigint", "block_number: numeric(10)"),
        "schema.columns.block_number",
        False,
    ),
    "narrower type": (
        ("block_number: bigint", "block_number: integer"),
        "schema.columns.block_number",
        False,
    ),
    "another type": (
        ("        label: text\n", "        label: jsonb\n"),
        "schema.columns.label",
        False,
    ),
    "unique": (("unique: [block_number, sender]", "unique: [block_number]"), "schema.unique", True),
    "indexes": (("indexes: [[sender]]", "indexes: []"), "schema.indexes", True),
    # The rows that exist stay where they are as long as their job is not rebuilt.
    "storage": (("    storage: s3\n", "    storage: postgres\n"), "storage", False),
    "buffered column added": (
        ("        severity: text\n", "        severity: text\n        chain: text\n"),
        "schema.columns.chain",
        True,
    ),
    "buffered column removed": (("        severity: text\n", ""), "schema.columns.severity", False),
    # A buffered table only gains columns.
    "buffered column wider": (
        ("severity: text", "severity: jsonb"),
        "schema.columns.severity",
        False,
    ),
    "buffered unique": (
        ("unique: [dedupe_key]", "unique: [dedupe_key, severity]"),
        "schema.unique",
        False,
    ),
    "buffered no longer": (
        ("    write_mode: buffered\n", "    write_mode: direct\n    storage: postgres\n"),
        "write_mode",
        False,
    ),
}


def schema_change(*edits: tuple[str, str]) -> SchemaChange:
    plan = plan_of(edited(*edits), busy_facts())
    (change,) = [change for dataset in plan.datasets for change in dataset.schema]
    return change


@pytest.mark.parametrize("name", SCHEMA)
def test_a_schema_change_is_compatible_or_marked_with_its_line(name: str) -> None:
    edit, field, compatible = SCHEMA[name]
    change = schema_change(edit)
    assert (change.field, change.compatible) == (field, compatible)
    assert change.why
    assert change.line


@pytest.mark.parametrize(
    ("old", "new", "wider"),
    [
        ("smallint", "bigint", True),
        ("bigint", "smallint", False),
        ("real", "double precision", True),
        ("double precision", "numeric", False),
        ("numeric(10,2)", "numeric(12,4)", True),
        ("numeric(10,4)", "numeric(20,2)", False),
        ("numeric(10,2)", "numeric(10,4)", False),
        ("integer", "numeric(12,3)", False),
        ("text", "jsonb", False),
        ("date", "timestamptz", False),
    ],
)
def test_a_type_is_wider_when_it_holds_every_value_unchanged(
    old: str, new: str, wider: bool
) -> None:
    assert widens(old, new) is wider


def test_a_removed_column_breaks_those_who_name_it_and_perhaps_those_who_do_not_say() -> None:
    change = schema_change(("        label: text\n", ""))
    # `volumes` filters by it; `export` does not say what it reads; `big_moves` reads another one.
    assert change.breaks == ("volumes", "reports.daily_volume")
    assert change.may_break == ("senders", "lake.export")


def test_a_compatible_change_breaks_nobody() -> None:
    change = schema_change(("numeric(38)", "numeric(78)"))
    assert (change.breaks, change.may_break) == ((), ())


def test_storage_moves_with_a_rebuild_of_its_job() -> None:
    change = schema_change(
        ("    storage: s3\n", "    storage: postgres\n"),
        ("l.amount, l.sender", "l.sender, l.amount"),
    )
    assert change.compatible


def test_incompatible_changes_are_listed_and_warned_about() -> None:
    plan = plan_of(edited(("        label: text\n", "")), busy_facts())
    assert [(name, change.field) for name, change in plan.incompatible] == [
        ("transfers", "schema.columns.label")
    ]
    (warning,) = plan.warnings
    assert warning == (
        "Incompatible: transfers schema.columns.label: the column is gone. It breaks volumes, "
        "reports.daily_volume and may break senders, lake.export."
    )
    assert plan.rebuild_set == frozenset()


def test_a_hidden_dataset_breaks_all_who_read_its_name() -> None:
    plan = plan_of(edited((PUBLISH_VOLUMES, "")), busy_facts())
    dataset = plan.dataset("volumes")
    assert dataset.action is DatasetAction.HIDDEN
    assert dataset.alert_rules == ("volume_drop",)
    assert dataset.schema[0].breaks == ("alert rule volume_drop",)
    assert plan.incompatible
    assert "volumes is no longer published. It breaks alert rule volume_drop." in plan.warnings


def test_a_dataset_that_nobody_reads_may_be_hidden() -> None:
    whales = TEXT[TEXT.index("  whale_events:\n") : TEXT.index("checks:\n")]
    plan = plan_of(edited((whales, "\n")), busy_facts())
    assert plan.dataset("whale_events").action is DatasetAction.HIDDEN
    assert not plan.incompatible


def test_a_renamed_dataset_is_known_by_its_parts_and_breaks_readers_of_the_old_name() -> None:
    plan = plan_of(edited(("  volumes:\n", "  label_volumes:\n")), busy_facts())
    dataset = plan.dataset("label_volumes")
    assert (dataset.action, dataset.was) == (DatasetAction.RENAMED, "volumes")
    assert dataset.alert_rules == ("volume_drop",)
    assert dataset.schema[0].breaks == ("alert rule volume_drop",)


def test_a_dataset_with_another_part_names_who_reads_it_inside_the_dag() -> None:
    plan = plan_of(
        edited(("      - { job: backfill, output: 1 }\n", "      - { job: backfill, output: 0 }\n"))
    )
    dataset = plan.dataset("logs")
    assert dataset.jobs == ("transfers", "whales")
    (edit,) = dataset.edits
    assert (edit.field, edit.effect) == ("from", "affects data")
    assert edit.old == ["follow.2", "backfill.1"]


def test_a_rebuilt_dataset_lists_its_readers_everywhere() -> None:
    plan = plan_of(edited(("l.amount, l.sender", "l.sender, l.amount")), busy_facts())
    dataset = plan.dataset("transfers")
    assert dataset.action is DatasetAction.REBUILT
    assert dataset.rebuilt_parts == ("transfers.0",)
    assert dataset.dags == ("reports.daily_volume", "lake.export")
    assert dataset.alert_rules == ("big_moves",)


def test_fewer_logged_columns_are_warned_about() -> None:
    plan = plan_of(edited(("pii: [sender]", "pii: []")))
    assert plan.warnings == ("Reads of transfers.sender are no longer logged.",)
    assert plan.dataset("transfers").edits[0].effect == "who may see it"


def test_a_job_that_reads_a_name_this_dag_no_longer_publishes_is_warned_about() -> None:
    logs = TEXT[TEXT.index("  logs:\n") : TEXT.index("  transfers:\n    from")]
    plan = plan_of(edited((logs, "")))
    assert "transfers" in plan.rebuild_set
    assert any(
        "transfers reads logs, which this DAG no longer publishes" in w for w in plan.warnings
    )


def test_lines_are_those_of_the_new_file() -> None:
    change = schema_change(("numeric(38)", "integer"))
    text = edited(("numeric(38)", "integer"))
    assert FILE and "amount: integer" in text.splitlines()[(change.line or 0) - 1]
